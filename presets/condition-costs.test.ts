import { expect, test } from 'vitest'
import { celValue } from './condition.ts'
import { createConditionEnvironment } from './condition-environment.ts'
import { compileProgram } from './condition-program.ts'
import { Failure } from './condition-values.ts'

const environment = createConditionEnvironment()

const variables = {
  object: celValue({
    text: 'x'.repeat(64),
    list: ['a', 'b', 'c'],
    map: { a: 1, b: 'x'.repeat(40) },
    nothing: null,
  }),
  request: {},
  namespaceObject: {},
}

const run = (expression: string, meter = { steps: Infinity, bytes: Infinity }): unknown => {
  try {
    return compileProgram(environment.parse(expression).ast).run(variables, meter)
  } catch (error) {
    return error
  }
}

// A change of these numbers changes which conditions stay within their budget.
test.each<[string, number, number]>([
  ['1', 1, 0],
  ['object.text', 2, 0],
  ['object.?text', 3, 0],
  ['object.list[0]', 4, 0],
  ['object.list[?0]', 4, 0],
  ['1 + 2', 7, 0],
  ['-(1)', 2, 0],
  ['!true', 2, 0],
  ['true && true', 3, 0],
  ['false || false', 3, 0],
  ['true ? 1 : 2', 3, 0],
  ['1 == 1', 4, 0],
  ['object.text == object.text', 8, 0],
  ['object.text == "short"', 5, 0],
  ['object.text < object.text', 11, 0],
  ['object.text + object.text', 9, 288],
  ['object.list + object.list', 7, 336],
  ['b"abc" + b"de"', 9, 42],
  ['object.list == object.list', 6, 0],
  ['[1, "a"] == [1, "a"]', 13, 288],
  ['{"a": 1} == {"a": 1}', 12, 384],
  ['"c" in object.list', 10, 0],
  ['"a" in object.map', 4, 0],
  ['[1, object.list]', 5, 144],
  ['{"a": 1, "b": 2}', 7, 288],
  ['has(object.text)', 2, 0],
  ['has(object.map.gone)', 3, 0],
  ['object.list.all(x, true)', 10, 0],
  ['object.list.exists(x, true)', 6, 0],
  ['object.list.exists_one(x, x == "a")', 22, 0],
  ['object.list.map(x, x)', 13, 288],
  ['object.list.filter(x, x == "a")', 24, 96],
  ['object.map.all(key, true)', 10, 288],
  ['b"ab".map(x, x)', 13, 768],
  ['cel.bind(x, 1, x)', 3, 0],
  ['optional.of(1).orValue(2)', 4, 0],
  ['optional.none().or(optional.of(2))', 10, 0],
  ['object.text.size()', 23, 0],
  ['size(object.list)', 7, 0],
  ['size(object.map)', 9, 0],
  ['size(b"abc")', 7, 0],
  ['dyn(object.list)', 7, 0],
  ['object.text.substring(1)', 10, 128],
  ['object.text.contains("xx")', 12, 0],
  ['object.text.contains("")', 10, 0],
  ['object.text.lowerAscii()', 15, 384],
  ['object.text.split("x")', 89, 5408],
  ['object.text.split("")', 22, 5328],
  ['object.text.split("xx")', 51, 2848],
  ['object.text.split("x", 3)', 155, 5564],
  ['"a,b".split(",", 2)', 8, 246],
  ['object.list.join()', 7, 38],
  ['object.list.join(", ")', 8, 46],
  ['object.text.matches("^x+$")', 201, 1200],
  ['object.text.matches("^" + "x+$")', 885, 3640],
  ['quantity("1Gi")', 162, 512],
  ['string(1)', 14, 800],
  ['string(object.text)', 15, 128],
  ['timestamp("2026-01-02T03:04:05Z").getHours("UTC")', 12024, 65536],
  ['duration("1h")', 23, 64],
  ['bytes("[1]").json()', 15, 129],
  ['1 / 0', 407, 0],
  ['object.gone', 102, 0],
  ['object.list.all(x, 1)', 11, 0],
])('%s takes %i steps and %i bytes', (expression, steps, bytes) => {
  const left = { steps: 100_000, bytes: 1_000_000 }
  run(expression, left)
  expect({ steps: 100_000 - left.steps, bytes: 1_000_000 - left.bytes }).toEqual({ steps, bytes })
})

test.each<[string, string]>([
  ['object.list.matches("x")', 'no such overload: .matches/1 of list, string'],
  ['object.list.matches("x" + "y")', 'no such overload: .matches/1 of list, string'],
  ['object.text.matches(dyn(1))', 'no such overload: .matches/1 of string, int'],
  ['object.list < 1', 'no such overload: a0 < a1 of list, int'],
  ['object.map < 1', 'no such overload: a0 < a1 of map, int'],
  ['dyn(1.5) < object.list', 'no such overload: a0 < a1 of double, list'],
  ['dyn(true) < object.list', 'no such overload: a0 < a1 of bool, list'],
  ['dyn(b"a") < object.list', 'no such overload: a0 < a1 of bytes, list'],
  ['timestamp(0) < dyn(object.list)', 'no such overload: a0 < a1 of google.protobuf.Timestamp, list'],
  ['optional.of(1) < dyn(object.list)', 'no such overload: a0 < a1 of optional, list'],
  ['duration("1s") < dyn(object.list)', 'no such overload: a0 < a1 of Duration, list'],
  ['object.nothing < object.list', 'no such overload: a0 < a1 of null, list'],
  ['object.list.split(",")', 'no such overload: .split/1 of list, string'],
  ['object.text.split("x", "y")', 'no such overload: .split/2 of string, string, string'],
  ['object.list.join(1)', 'no such overload: .join/1 of list, int'],
  ['[1, 2].join()', 'string.join(separator): list must contain only strings'],
  ['object.list[5]', 'No such key: index out of bounds, index 5 >= size 3'],
  ['object.list[-1]', 'No such key: index out of bounds, index -1 < 0'],
  ['[][0]', 'No such key: index out of bounds, index 0 >= size 0'],
  ['object.list["a"]', 'No such key: a'],
  ['object.map[1.5]', 'No such key: 1.5'],
  ['object.map[object.list]', 'No such key: list'],
  ['object.map[true]', 'No such key: true'],
  ['{object.list: 1}', 'the key of a map must not be of type list'],
  ['object.gone || false', 'No such key: gone'],
  ['object.gone && true', 'No such key: gone'],
  ['object.text || false', "Logical operator requires bool operands, got 'string'"],
  ['true && object.text', "Logical operator requires bool operands, got 'string'"],
  ['object.text ? 1 : 2', "Ternary condition must be bool, got 'string'"],
  [
    'object.text.all(x, true)',
    "Expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic).",
  ],
  ['object.list.all(x, x)', "all(var, predicate) predicate must return bool, got 'string'"],
  ['object.list.exists(x, 1)', "exists(var, predicate) predicate must return bool, got 'int'"],
  ['object.list.exists_one(x, 1)', "exists_one(var, predicate) predicate must return bool, got 'int'"],
  ['object.list.map(x, 1, x)', "map(var, filter, transform) filter predicate must return bool, got 'int'"],
  ['object.list.filter(x, "a")', "filter(var, predicate) predicate must return bool, got 'string'"],
  ['object.or(1)', 'optional.or(optional) receiver must be optional'],
  ['optional.none().or(dyn(1))', 'optional.or(optional) argument must be optional'],
  ['object.orValue(1)', 'optional.orValue(value) receiver must be optional'],
  ['optional.none().value()', 'Optional value is not present'],
  ['has(object.gone.deeper)', 'No such key: gone'],
  ['object.list.gone()', 'gone() cannot be used here'],
  ['-object.text', 'no such overload: -string'],
  ['1 / 0', 'division by zero'],
])('%s fails: %s', (expression, message) => {
  expect(run(expression)).toMatchObject({ message })
})

test.each([
  [64, 'Invalid time zone specified'],
  [65, '.getHours() takes at most 64 characters'],
])('a time zone of %i characters: %s', (length, message) => {
  const failure = run(`timestamp(0).getHours("${'x'.repeat(length)}")`)
  expect(failure).toBeInstanceOf(Failure)
  expect(failure).toMatchObject({ message: expect.stringContaining(message) })
})
