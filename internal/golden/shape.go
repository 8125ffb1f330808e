package golden

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

// CheckShape fails a test unless the fields of JSON documents, and the types of these fields, are the same as in the file.
// mapPaths are the paths of objects whose keys are data.
func CheckShape(t testing.TB, file, documents string, mapPaths ...string) {
	t.Helper()
	shape, err := Shape(documents, mapPaths...)
	if err != nil {
		t.Fatalf("%s: %v in\n%s", file, err, documents)
	}
	CheckLines(t, file, shape)
}

// Shape returns the fields of JSON documents, one per line, sorted: the path and the types that occur. Elements of
// an array have the path of the array and "[]". Keys of the objects at the paths in mapPaths are data: they all become "*".
func Shape(documents string, mapPaths ...string) (string, error) {
	s := shape{mapPaths: mapPaths, types: map[string]map[string]bool{}}
	d := json.NewDecoder(bytes.NewReader([]byte(documents)))
	for {
		var document any
		err := d.Decode(&document)
		if errors.Is(err, io.EOF) {
			return s.String(), nil
		}
		if err != nil {
			return "", err
		}
		s.add("", document)
	}
}

// A shape records the JSON types of the values of each field path in JSON documents.
type shape struct {
	mapPaths []string
	types    map[string]map[string]bool
}

func (s *shape) add(path string, value any) {
	var name string
	switch v := value.(type) {
	case map[string]any:
		name = "object"
		isMap := slices.Contains(s.mapPaths, path)
		for key, field := range v {
			if isMap {
				key = "*"
			}
			s.add(strings.TrimPrefix(path+"."+key, "."), field)
		}
	case []any:
		name = "array"
		for _, element := range v {
			s.add(path+"[]", element)
		}
	case string:
		name = "string"
	case float64:
		name = "number"
	case bool:
		name = "boolean"
	default:
		name = "null"
	}
	if s.types[path] == nil {
		s.types[path] = map[string]bool{}
	}
	s.types[path][name] = true
}

func (s *shape) String() string {
	var text strings.Builder
	for _, path := range slices.Sorted(maps.Keys(s.types)) {
		text.WriteString(strings.TrimSpace(path+" "+strings.Join(slices.Sorted(maps.Keys(s.types[path])), "|")) + "\n")
	}
	return text.String()
}
