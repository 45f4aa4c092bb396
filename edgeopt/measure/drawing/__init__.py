"""Reports as pictures: charts for a terminal, timelines for Perfetto."""
