package group

import (
	"bufio"
	"bytes"
	"context"
	"reflect"
	"testing"
)

// TestSmallOfAll: a group has a tree where all its hosts know how small operations travel, and offers where all take them and there are several sites.
func TestSmallOfAll(t *testing.T) {
	near := Tree{Leaders: []int{0, 0}, Limit: 1, Straight: 2, Across: maxAcross, Rounds: MaxRounds, Hops: 3, Order: []int{1, 0}}
	far := Tree{Leaders: []int{0, 1}, Limit: 1, Across: 3, Via: [][]int{{0, 0}, {1, 1}}}
	near.Brief, far.Brief = true, true
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
			d := directory{jobs: make(map[string]*forming), tree: func([]string) *Tree { made := tt.made; made.Brief = false; return &made }}
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

// TestDirectoryOfBefore: to a peer words have the short form only where the directory says that all hosts know it. One of before that makes trees as well, and does not say so.
func TestDirectoryOfBefore(t *testing.T) {
	for _, brief := range []bool{true, false} {
		var said sink
		said.Buffer = new(bytes.Buffer)
		m := &member{ctx: t.Context(), tree: &Tree{Leaders: []int{0, 1}, Brief: brief}, g: &Groups{cfg: Config{Open: func(context.Context, string) (Stream, error) { return &said, nil }}}}
		c, err := m.openPeer("b")
		if err != nil {
			t.Fatal(err)
		}
		said.Reset() // the greeting, which is JSON
		if err := c.Send(message{Kind: kindItems, Seq: 3}); err != nil {
			t.Fatal(err)
		}
		read, err := readMessage(bufio.NewReader(said.Buffer))
		if err != nil || read.Seq != 3 || read.brief != brief {
			t.Errorf("all hosts know it: %v, and it goes as %+v, %v", brief, read, err)
		}
	}
	if (*Tree)(nil).brief() {
		t.Error("a group without a tree has words in the short form")
	}
}
