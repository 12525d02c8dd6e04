"""What experiments have in common: meshes as engines, many runs, figures, data sets."""
