"""Records: from a source or topic into slots, and into features and labels."""
