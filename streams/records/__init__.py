"""Records: from a source or a topic into slots, and into features and labels."""
