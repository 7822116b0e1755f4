// Prints the type declarations of Go packages as JSON: structs with their fields, tags and comments, other named types, and
// constants by type. Standard library only. Run by generate.py: go run declarations.go DIRECTORY...
package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type field struct {
	Name     string `json:"name"`
	Embedded bool   `json:"embedded"`
	Type     string `json:"type"`
	Tag      string `json:"tag"`
	Doc      string `json:"doc"`
}

type declaration struct {
	Name   string  `json:"name"`
	Doc    string  `json:"doc"`
	Type   string  `json:"type"`
	Struct bool    `json:"struct"`
	Fields []field `json:"fields"`
}

type module struct {
	Types     []declaration       `json:"types"`
	Constants map[string][]string `json:"constants"`
	Values    map[string]string   `json:"values"`
	Imports   map[string]string   `json:"imports"`
}

func text(node any) string {
	var out strings.Builder
	if printer.Fprint(&out, token.NewFileSet(), node) != nil {
		os.Exit(1)
	}
	return out.String()
}

func fields(list *ast.FieldList) []field {
	found := []field{}
	for _, one := range list.List {
		tag := ""
		if one.Tag != nil {
			tag, _ = strconv.Unquote(one.Tag.Value)
		}
		base := field{Type: text(one.Type), Tag: tag, Doc: comment(one.Doc)}
		if len(one.Names) == 0 {
			base.Embedded = true
			found = append(found, base)
		}
		for _, name := range one.Names {
			named := base
			named.Name = name.Name
			found = append(found, named)
		}
	}
	return found
}

// comment keeps marker lines, which CommentGroup.Text leaves out where they look like directives.
func comment(group *ast.CommentGroup) string {
	if group == nil {
		return ""
	}
	lines := []string{}
	for _, one := range group.List {
		lines = append(lines, strings.TrimSpace(strings.TrimPrefix(one.Text, "//")))
	}
	return strings.Join(lines, "\n")
}

func read(directory string) module {
	found := module{Types: []declaration{}, Constants: map[string][]string{}, Values: map[string]string{}, Imports: map[string]string{}}
	files, _ := filepath.Glob(filepath.Join(directory, "*.go"))
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "generated") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			os.Exit(1)
		}
		for _, one := range parsed.Imports {
			path, _ := strconv.Unquote(one.Path.Value)
			name := path[strings.LastIndex(path, "/")+1:]
			if one.Name != nil {
				name = one.Name.Name
			}
			found.Imports[name] = path
		}
		for _, one := range parsed.Decls {
			if general, ok := one.(*ast.GenDecl); ok {
				collect(general, &found)
			}
		}
	}
	return found
}

func collect(general *ast.GenDecl, found *module) {
	for _, spec := range general.Specs {
		switch one := spec.(type) {
		case *ast.TypeSpec:
			doc := comment(one.Doc)
			if doc == "" {
				doc = comment(general.Doc)
			}
			made := declaration{Name: one.Name.Name, Doc: doc, Fields: []field{}}
			if structure, ok := one.Type.(*ast.StructType); ok {
				made.Struct = true
				made.Fields = fields(structure.Fields)
			} else {
				made.Type = text(one.Type)
			}
			found.Types = append(found.Types, made)
		case *ast.ValueSpec:
			if general.Tok == token.CONST {
				constants(one, found)
			}
		}
	}
}

// constants takes both `A Kind = "a"` and `A = Kind("a")`.
func constants(spec *ast.ValueSpec, found *module) {
	for place, value := range spec.Values {
		kind := ""
		if spec.Type != nil {
			kind = text(spec.Type)
		} else if call, ok := value.(*ast.CallExpr); ok && len(call.Args) == 1 {
			kind, value = text(call.Fun), call.Args[0]
		}
		if literal, ok := value.(*ast.BasicLit); ok && kind != "" && literal.Kind == token.STRING {
			said, _ := strconv.Unquote(literal.Value)
			found.Constants[kind] = append(found.Constants[kind], said)
			found.Values[spec.Names[place].Name] = said
		}
	}
}

func main() {
	found := map[string]module{}
	for _, directory := range os.Args[1:] {
		found[directory] = read(directory)
	}
	if json.NewEncoder(os.Stdout).Encode(found) != nil {
		os.Exit(1)
	}
}
