// Package killpoint lets a test kill the process at a named moment of the protocol. In an ordinary build Hit does
// nothing and costs nothing; in a build with the tag "killpoints" the environment variable TIDEGATE_KILL_AT, such as
// "running/action/Write#3", names the moment and how often it has to come first, "running/event/Closing>running/action/Write"
// one that counts only after another; TIDEGATE_KILL_WITH=STOP freezes the process there instead. Every room may import it.
package killpoint
