//go:build !linux

package gridnet

func preciseAlarm() alarm { return goAlarm() }
