package group

import (
	"reflect"
	"testing"
)

// TestSmallOfAll: a group has a tree where all its hosts know how small operations travel, and offers where all take them and there are several sites.
func TestSmallOfAll(t *testing.T) {
	near := Tree{Leaders: []int{0, 0}, Limit: 1, Straight: 2, Across: maxAcross, Rounds: MaxRounds, Hops: 3, Order: []int{1, 0}}
	far := Tree{Leaders: []int{0, 1}, Limit: 1, Across: 3, Via: [][]int{{0, 0}, {1, 1}}}
	offered := far
	offered.Offers = true
	knows := func(version int, offers bool) message {
		return message{Job: "j", Ranks: 2, Small: version, Offers: offers}
	}
	for _, tt := range []struct {
		name        string
		made        Tree
		first, last message
		want        *Tree
	}{
		{"all know", far, knows(smallVersion, true), knows(smallVersion, true), &offered},
		{"one knows more", far, knows(smallVersion, true), knows(smallVersion+1, true), &offered},
		{"one site", near, knows(smallVersion, true), knows(smallVersion, true), &near},
		{"one takes no offers", far, knows(smallVersion, true), knows(smallVersion, false), &far},
		{"the first knows less", far, knows(0, false), knows(smallVersion, true), nil},
		{"the last knows less", near, knows(smallVersion, true), knows(smallVersion-1, true), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := directory{jobs: make(map[string]*forming), tree: func([]string) *Tree { made := tt.made; return &made }}
			if _, bad := d.register("a", tt.first); bad != nil {
				t.Fatal(bad)
			}
			tt.last.Rank = 1
			reg, bad := d.register("b", tt.last)
			if bad != nil {
				t.Fatal(bad)
			}
			if formed := <-reg.out; !reflect.DeepEqual(formed.Tree, tt.want) {
				t.Errorf("the tree is %+v, want %+v", formed.Tree, tt.want)
			}
		})
	}
}
