"""The page Device."""
