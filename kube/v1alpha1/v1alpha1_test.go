package v1alpha1

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// TestDeepCopy sets all fields of each kind of object. The deep copy equals the original and shares no memory
// with it.
func TestDeepCopy(t *testing.T) {
	for _, object := range []runtime.Object{&NodeCPU{}, &NodeCPUList{}, &CPUProfile{}, &CPUProfileList{}} {
		fill(reflect.ValueOf(object).Elem(), 0)
		c := object.DeepCopyObject()
		if !reflect.DeepEqual(c, object) {
			t.Errorf("%T: the copy differs:\n%+v", object, c)
		}
		seen := map[uintptr]string{}
		memory(reflect.ValueOf(object), "", func(at uintptr, path string) { seen[at] = path })
		memory(reflect.ValueOf(c), "", func(at uintptr, path string) {
			if seen[at] != "" {
				t.Errorf("%T%s is shared with the copy", object, path)
			}
		})
		if len(seen) < 4 {
			t.Errorf("%T: memory visited only %d addresses", object, len(seen))
		}
	}
	if (*NodeCPU)(nil).DeepCopy() != nil || (*CPUProfileList)(nil).DeepCopy() != nil {
		t.Error("the copy of nil is not nil")
	}
}

// fill sets every settable field to a non-zero value.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() && depth < 8 {
				fill(field, depth+1)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(value, depth+1)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	}
}

// memory calls visit for each address that a value points to, with the path of the field.
func memory(v reflect.Value, path string, visit func(at uintptr, path string)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if v.IsNil() {
			return
		}
		visit(v.Pointer(), path)
	}
	switch v.Kind() {
	case reflect.Pointer:
		memory(v.Elem(), path, visit)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() { // the unexported fields belong to time.Time
				memory(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			memory(v.Index(i), path+"[]", visit)
		}
	}
}

func TestFingerprint(t *testing.T) {
	if a, b := Fingerprint([]string{"a", "b", "", "a"}), Fingerprint([]string{"b", "a"}); a != b || len(a) != 16 {
		t.Errorf("got %q and %q, want equal fingerprints of 16 digits", a, b)
	}
	all := map[string][]string{}
	for _, pods := range [][]string{nil, {"a"}, {"b"}, {"a", "b"}, {"ab"}, {"a", "b", "c"}} {
		f := Fingerprint(pods)
		if other, taken := all[f]; taken {
			t.Errorf("%q and %q have the same fingerprint", pods, other)
		}
		all[f] = pods
	}
}

// TestAddToScheme: after AddToScheme, a scheme creates objects of all kinds.
func TestAddToScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"NodeCPU", "NodeCPUList", "CPUProfile", "CPUProfileList"} {
		if object, err := s.New(GroupVersion.WithKind(kind)); err != nil || object == nil {
			t.Errorf("%s: %v, %v", kind, object, err)
		}
	}
}
