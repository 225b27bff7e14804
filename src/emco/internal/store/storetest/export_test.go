package storetest

// CheckRule checks one rule of drivers.
var CheckRule = check
