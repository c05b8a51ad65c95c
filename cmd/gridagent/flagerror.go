package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// flagError rewords what pflag says of a value that a flag refuses: with the flag's name
// once, the value cut where it is long, and without the words of package strconv.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	return fmt.Errorf("--%s %.64q: %w", invalid.GetFlag().Name, invalid.GetValue(), valueError(invalid.GetFlag(), invalid.Unwrap()))
}

// valueError says what f wants in the place of a value that it refuses with cause.
func valueError(f *pflag.Flag, cause error) error {
	if errors.Is(cause, strconv.ErrRange) {
		return errors.New("too large")
	}
	switch f.Value.Type() {
	case "int":
		return errors.New("want a whole number")
	case "uint32", "uint64":
		return errors.New("want a whole number of 0 or more")
	case "float64":
		return errors.New("want a number")
	case "bool":
		return errors.New("want true or false")
	case "duration":
		return errors.New("want a time with its unit, such as 30s or 5m")
	}
	return cause // of our own types, which say what they want
}
