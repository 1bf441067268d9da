"""Speed, as ratios against a peer in the same run. ``make bench`` prints the table."""
