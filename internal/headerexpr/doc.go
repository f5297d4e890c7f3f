// Package headerexpr decides by the headers of a record whether it is kept. The text of an expression in one of two
// languages and a list of headers come in; an error that shows the place and the way out, a decision that allocates
// nothing, or the account of a decision goes out. It is plain Go; every room may import it.
//
// Language vvr is that of the option scan.header-filter of Alibaba's Kafka connector (VVR 8.0.6): terms key:value, joined
// by |, & and !, evaluated strictly from left to right. Language extended has the usual precedence, parentheses and more
// kinds of terms. What neither of the vendor's documents tells is defined here:
//
//   - a term holds where any header of the key has the value;
//   - values are compared byte for byte with the text in UTF-8, so a value that is no valid UTF-8 equals nothing;
//   - a null value equals nothing, an empty one equals the empty text;
//   - where no header has the key, a term is false, and its negation true.
package headerexpr
