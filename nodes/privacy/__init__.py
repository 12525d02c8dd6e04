"""The line between private and public: the only folder that turns one into the other."""
