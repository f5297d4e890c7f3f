package realkafka

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"

	"github.com/tidegate/tidegate/internal/child"
)

//go:embed pom.xml
var pom []byte

// java is a usable Java machine and the jars of Kafka.
type java struct {
	binary string
	// classPath is Java's wildcard form: every jar of the folder.
	classPath string
}

// findJava finds Java and fetches the jars, once per process. Its error says what is missing.
var findJava = sync.OnceValues(func() (java, error) {
	binary, err := JavaBinary()
	if err != nil {
		return java{}, err
	}
	libs, err := Jars(context.Background(), "kafka-"+Version, pom)
	if err != nil {
		return java{}, err
	}
	return java{binary: binary, classPath: filepath.Join(libs, "*")}, nil
})

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// JavaBinary finds the program java of Java 17 or later.
func JavaBinary() (string, error) {
	binary := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		binary = filepath.Join(home, "bin", "java")
	}
	path, err := exec.LookPath(binary)
	if err != nil {
		return "", fmt.Errorf("finding Java 17 or later: %w", err)
	}
	out, err := exec.Command(path, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", path, err)
	}
	m := javaVersion.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("asking %s for its version: it says %q", path, out)
	}
	if version, _ := strconv.Atoi(string(m[1])); version < 17 {
		return "", fmt.Errorf("finding Java 17 or later: %s is Java %s", path, m[1])
	}
	return path, nil
}

// Jars returns the folder with the jars that a pom.xml asks for, of the name given, in the user's cache. Several test
// processes may get here at once: one fetches while the others wait at the lock, and the folder appears under its name
// only when it is complete.
func Jars(ctx context.Context, name string, pom []byte) (string, error) {
	cache, err := cacheDir("")
	if err != nil {
		return "", err
	}
	final := filepath.Join(cache, name)
	if complete(final) {
		return final, nil
	}
	lock, err := lockFile(final+".lock", true)
	if err != nil {
		return "", err
	}
	defer lock.unlock()
	if complete(final) {
		return final, nil
	}
	work, err := os.MkdirTemp(cache, name+".part-")
	if err != nil {
		return "", fmt.Errorf("creating a folder for the jars of %s: %w", name, err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	libs := filepath.Join(work, "libs")
	if err := fetchJars(ctx, name, pom, work, libs); err != nil {
		return "", err
	}
	if err := os.Rename(libs, final); err != nil {
		return "", fmt.Errorf("moving the jars of %s into the cache: %w", name, err)
	}
	return final, nil
}

// complete tells whether a folder with jars is there; it is renamed into place whole.
func complete(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

func fetchJars(ctx context.Context, name string, pom []byte, work, libs string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("finding Maven, which fetches %s: %w", name, err)
	}
	pomFile := filepath.Join(work, "pom.xml")
	if err := os.WriteFile(pomFile, pom, 0o644); err != nil {
		return fmt.Errorf("writing the list of jars: %w", err)
	}
	// A second try gets past a connection that broke; what Maven has fetched by then it keeps.
	var errs []error
	for range 2 {
		cmd := exec.CommandContext(ctx, mvn, "-B", "-q", "-f", pomFile, "dependency:copy-dependencies",
			"-DincludeScope=runtime", "-DoutputDirectory="+libs)
		out, err := runBound(cmd)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("fetching %s by Maven: %w\n%s", name, err, out))
	}
	return errors.Join(errs...)
}

// runBound runs a command to its end and returns its output and errors together. The child dies with this process.
func runBound(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := child.Run(cmd)
	return out.Bytes(), err
}
