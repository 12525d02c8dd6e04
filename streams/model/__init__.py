"""What a mesh has learnt, taken away: written, read again, predicted with."""
