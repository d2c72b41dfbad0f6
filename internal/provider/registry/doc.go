// Package registry turns the providers' configuration file into named, running providers.
//
// The file is YAML in a narrow form, so that what it says is what was meant:
//
//	providers:
//	- name: exits-eu              # DNS-1123 label, unique; spec.provider of a Proxy names it
//	  type: local                 # one of the types the operator was built with
//	  maxInstances: 200           # 0 to 1000000; 0 or absent: no cap
//	  namespaces: [crawlers]      # who may use it; empty or absent: every namespace
//	  local:                      # the block of the entry's own type, and of no other; absent means {}
//	    ...
//
// Unknown, repeated and wrongly cased keys fail, as do anchors, aliases, merge keys, explicit tags and a second
// document. A file without any document fails too: a truncated file must not look like one that means "no providers",
// which is written `providers: []`. All problems are reported at once, one a line, with line, entry and key.
package registry
