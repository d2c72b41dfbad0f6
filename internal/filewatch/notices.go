package filewatch

import "github.com/fsnotify/fsnotify"

// notices are what the system tells of a folder. Without any the channels are nil.
type notices struct {
	folder string
	from   *fsnotify.Watcher
	events chan fsnotify.Event
	errors chan error
}

// want asks for notices. A folder that was replaced has taken its watch with it, so it is worth asking again.
func (n *notices) want() {
	if n.from == nil {
		from, err := fsnotify.NewWatcher()
		if err != nil {
			return
		}
		n.from, n.events, n.errors = from, from.Events, from.Errors
	}
	if n.from.Add(n.folder) != nil {
		n.close()
	}
}

func (n *notices) close() {
	if n.from != nil {
		_ = n.from.Close()
	}
	n.from, n.events, n.errors = nil, nil, nil
}
