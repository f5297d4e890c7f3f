package cache

const childRole = "TIDEGATE_CACHE_TEST_CHILD"

func runChild(string) int { return 0 }
