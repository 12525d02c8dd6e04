"""What must hold after every event of a simulated history."""
