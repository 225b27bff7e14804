package documenttally

// Update is what Run does at each look.
var Update = (*Tally).update
