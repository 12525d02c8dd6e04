"""Programs beside a mesh: feeding, models, tuning, the development broker, `up`."""
