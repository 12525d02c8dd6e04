"""Makes models, and predicts with them."""
