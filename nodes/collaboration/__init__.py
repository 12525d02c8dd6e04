"""A learner that queries owners of private, static record sets (Wu, Farokhi, Smith, Kaafar 2020)."""
