"""The party's own stream: from its data topic into slots, on Faust."""
