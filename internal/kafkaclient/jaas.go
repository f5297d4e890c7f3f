package kafkaclient

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

const (
	propJAAS      = "sasl.jaas.config"
	propMechanism = "sasl.mechanism"
)

// modules are the login modules there are, by their simple names: Flink's distributions put other packages in front.
var modules = map[string][]string{
	"PlainLoginModule": {MechanismPlain},
	"ScramLoginModule": {MechanismScram256, MechanismScram512},
}

// parseJAAS reads sasl.jaas.config, with the mechanism of sasl.mechanism, empty where there is none. Its errors quote
// nothing but the name of the module.
func parseJAAS(text, mechanism string) (SASL, error) {
	fail := func(format string, args ...any) (SASL, error) {
		return SASL{}, fmt.Errorf("properties."+propJAAS+": "+format, args...)
	}
	words, err := jaasWords(text)
	if err != nil {
		return fail("%w", err)
	}
	if len(words) < 2 {
		return fail(`it has to be a login module, "required" and its options, such as ` +
			`org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";`)
	}
	module := words[0][strings.LastIndexAny(words[0], ".$")+1:]
	mechanisms, known := modules[module]
	if !known {
		// What stands there may be anything where the module was forgotten, the password too.
		if !moduleName.MatchString(words[0]) {
			return fail("it does not begin with a login module; there are PlainLoginModule and ScramLoginModule")
		}
		return fail("login module %s is not supported; there are PlainLoginModule and ScramLoginModule", module)
	}
	if !slices.Contains([]string{"required", "requisite", "sufficient", "optional"}, strings.ToLower(words[1])) {
		return fail(`after %s there has to be the word "required"`, module)
	}
	out := SASL{Field: "properties." + propJAAS}
	for _, word := range words[2:] {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case !ok:
			return fail(`what follows "required" has to be username="..." password="...";`)
		case key == "username":
			out.Username = value
		case key == "password":
			out.Password = NewSecret(value)
		default:
			return fail("an option of %s is not supported; there are username and password", module)
		}
	}
	switch {
	case mechanism == "" && len(mechanisms) == 1:
		mechanism = mechanisms[0]
	case mechanism == "":
		return SASL{}, fmt.Errorf("properties.%s: required with %s; write %s", propMechanism, module, strings.Join(mechanisms, " or "))
	case !slices.Contains(mechanisms, mechanism):
		return SASL{}, fmt.Errorf("properties.%s: %s does not go with %s in %s, which is for %s", propMechanism, mechanism, module,
			propJAAS, strings.Join(mechanisms, " and "))
	}
	out.Mechanism = mechanism
	return out, nil
}

// moduleName is what the class of a login module looks like.
var moduleName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.$]*LoginModule$`)

// jaasWords splits as Kafka does: at spaces, outside of quotes, up to a semicolon. Quotes may be single or double, with a
// backslash before what is taken as it is.
func jaasWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, assigned, quote, escaped := false, false, rune(0), false
	flush := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for i, r := range text {
		switch {
		case escaped:
			word.WriteRune(unescaped(r))
			escaped = false
		case quote != 0 && r == '\\':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, inWord = r, true
		case r == '=' && !strings.Contains(word.String(), "="):
			if !inWord && len(words) > 0 { // there was a space before it
				word.WriteString(words[len(words)-1])
				words = words[:len(words)-1]
			}
			word.WriteRune(r)
			inWord, assigned = true, true
			continue
		case r == ';':
			if strings.TrimSpace(text[i+1:]) != "" {
				return nil, errors.New("there is something behind the semicolon; one login module is supported, and what has " +
					"a semicolon in it needs quotes")
			}
			flush()
			return words, nil
		case unicode.IsSpace(r) && assigned:
			continue // the value is still to come
		case unicode.IsSpace(r):
			flush()
		default:
			word.WriteRune(r)
			inWord = true
		}
		assigned = false
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	flush()
	return words, nil
}

func unescaped(r rune) rune {
	switch r {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	}
	return r
}
