import { describe, expect, test } from 'vitest'
import { boolean, bounded, checkSchema, closed, integer, isDeeper, list, map, opaque, open, string } from './schema.ts'
import type { Schema } from './schema.ts'

const size = string('Size.', { enum: ['small', 'large'] })
const named = open('Item.', { name: string('Name.', { minLength: 1, maxLength: 3, pattern: '^[a-z]*$' }) }, ['name'])
const byName = list('Items.', named, {
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['name'],
  minItems: 1,
  maxItems: 6,
})

describe('a value that fits', () => {
  test.each<[string, Schema, unknown]>([
    ['word', size, 'small'],
    ['whole number', integer('', { minimum: 0 }), 0],
    ['truth', boolean(''), false],
    ['map', map('', string('')), { 'a/b': '', __proto_: 'x' }],
    ['list', byName, [{ name: 'a' }, { name: 'b' }]],
    ['opaque object', opaque(''), { anything: [null, { goes: 1 }] }],
    ['integer or string', { 'x-kubernetes-int-or-string': true }, '3260'],
    ['anything', {}, null],
  ])('%s', (_, schema, value) => expect(checkSchema(schema, value, 'spec')).toEqual([]))
})

test.each([
  [1, 0, false],
  [{}, 0, true],
  [{ a: [1] }, 2, false],
  [{ a: [{}] }, 2, true],
])('whether %j is deeper than %i: %s', (value, levels, expected) => expect(isDeeper(value, levels)).toBe(expected))

test('a hostile list reports the first causes and counts the others', () => {
  const schema = closed('', { list: list('', string('')) })
  const causes = checkSchema(schema, { list: Array.from({ length: 200_000 }, () => 1) }, 'spec')
  expect(causes).toHaveLength(257)
  expect(causes.at(-1)).toMatchObject({ field: 'spec', value: 199_744, message: 'more faults are not listed' })
})

test('adds a bound to every list, map and string that has none', () => {
  const schema = open('', {
    size,
    names: list('', string('', { maxLength: 9 })),
    labels: map('', string('')),
    domain: opaque(''),
  })
  expect(bounded(schema)).toEqual({
    ...schema,
    properties: {
      size,
      names: { ...list('', string('', { maxLength: 9 })), maxItems: 256 },
      labels: { ...map('', string('', { maxLength: 1024 })), maxProperties: 256 },
      domain: opaque(''),
    },
  })
})

describe('a value that does not fit', () => {
  const sentence = (schema: Schema, value: unknown) =>
    checkSchema(schema, value, 'spec').map(
      ({ field, reason, message, suggestion }) =>
        `${field} ${reason}: ${message}${suggestion ? ` (${suggestion})` : ''}`,
    )

  test.each<[string, Schema, unknown, string[]]>([
    ['null', opaque(''), null, ['spec FieldValueTypeInvalid: must be an object, not null']],
    ['a list for an object', opaque(''), [], ['spec FieldValueTypeInvalid: must be an object, not a list']],
    ['an object for a list', byName, {}, ['spec FieldValueTypeInvalid: must be a list, not an object']],
    ['a string for a boolean', boolean(''), 'yes', ['spec FieldValueTypeInvalid: must be true or false, not a string']],
    ['a fraction', integer(''), 1.5, ['spec FieldValueTypeInvalid: must be an integer, not a number']],
    [
      'a number in quotes',
      integer(''),
      '80',
      ['spec FieldValueTypeInvalid: must be an integer, not a string (remove the quotes)'],
    ],
    ['a text for an integer', integer(''), '30s', ['spec FieldValueTypeInvalid: must be an integer, not a string']],
    [
      "YAML's y",
      string(''),
      true,
      [
        'spec FieldValueTypeInvalid: must be a string, not a boolean (put it in quotes: without them, YAML reads y, yes and on as true)',
      ],
    ],
    [
      'a name for an object with a name',
      closed('', { name: string('') }, ['name']),
      'a',
      ['spec FieldValueTypeInvalid: must be an object, not a string (did you mean {name: "a"}?)'],
    ],
    [
      'a key that belongs two levels below',
      closed('', { template: closed('', { spec: closed('', { domain: opaque('') }) }) }),
      { domain: {} },
      ['spec.domain FieldValueInvalid: there is no such field ("domain" belongs under template.spec)'],
    ],
    [
      'a fraction or string',
      { 'x-kubernetes-int-or-string': true },
      0.5,
      ['spec FieldValueTypeInvalid: must be an integer or a string, not a number'],
    ],
    ['too little', integer('', { minimum: 0 }), -1, ['spec FieldValueInvalid: must be at least 0']],
    ['too much', integer('', { maximum: 9 }), 10, ['spec FieldValueInvalid: must be at most 9']],
    [
      'another word',
      size,
      'smal',
      ['spec FieldValueNotSupported: supported values: "small", "large" (did you mean "small"?)'],
    ],
    [
      'an unknown key',
      closed('', { domain: opaque('') }),
      { domian: 1 },
      ['spec.domian FieldValueInvalid: there is no such field (did you mean "domain"?)'],
    ],
    [
      'a key from the prototype',
      open('', { image: string(''), secret: string('') }),
      JSON.parse('{"__proto__": {}, "constructor": 1}'),
      [
        'spec.__proto__ FieldValueInvalid: there is no such field (the fields here are image, secret)',
        'spec.constructor FieldValueInvalid: there is no such field (the fields here are image, secret)',
      ],
    ],
    [
      'a value of a map',
      map('', string('')),
      { 'a.b/c': 1 },
      ['spec[a.b/c] FieldValueTypeInvalid: must be a string, not a number (put it in quotes: "1")'],
    ],
    [
      'many at once',
      byName,
      [{ name: 'a' }, {}, { name: 'a' }, { name: 'ABCD' }, { name: 'A' }, { name: '' }],
      [
        'spec[1].name FieldValueRequired: must be given',
        'spec[3].name FieldValueTooLong: must be at most 3 characters long',
        'spec[4].name FieldValueInvalid: must match ^[a-z]*$',
        'spec[5].name FieldValueInvalid: must not be empty',
        'spec[2].name FieldValueDuplicate: already used by spec[0]',
      ],
    ],
    [
      'a list that is too long, regardless of its items',
      byName,
      Array.from({ length: 7 }, () => 1),
      ['spec FieldValueTooMany: must have at most 6 items'],
    ],
    [
      'a map that is too large, regardless of its entries',
      { ...map('', string('')), maxProperties: 1 },
      { a: 1, b: 2 },
      ['spec FieldValueTooMany: must have at most 1 keys'],
    ],
    ['an empty list', byName, [], ['spec FieldValueInvalid: must have at least 1 items']],
  ])('%s', (_, schema, value, expected) => expect(sentence(schema, value)).toEqual(expected))
})
