import { describe, expect, test } from 'vitest'
import { authorAnnotation } from '../../api/object-preset.ts'
import { admissionRequest, outcomeOf } from '../../test/admission.ts'
import { operationsOf } from '../../test/operations.ts'
import { authorOf, recordAuthor } from './author.ts'

const jane = '{"username":"jane","groups":["dev"]}'
const joe = '{"username":"joe","groups":[]}'
const preset = (size: number, annotations?: object) => ({
  metadata: { name: 'p', ...(annotations === undefined ? {} : { annotations }) },
  spec: { object: { spec: { size } } },
})
const by = (text: string, more: object = {}) => ({ [authorAnnotation]: text, ...more })

const sent = (object: unknown, oldObject?: unknown, groups: readonly string[] = ['dev']) =>
  recordAuthor(admissionRequest('ObjectPreset', object, oldObject, { user: { username: 'jane', groups } }))

/** The operations of the patch. */
const changes = (...given: Parameters<typeof sent>) =>
  operationsOf(sent(...given)).map((operation) => [
    operation.op,
    operation.path,
    ...('value' in operation ? [operation.value] : []),
  ])

const path = '/metadata/annotations/virtset.io~1author'

describe('the author of a preset', () => {
  test.each<[string, unknown, unknown, readonly unknown[]]>([
    ['is recorded when it is created', preset(1), undefined, [['add', '/metadata/annotations', by(jane)]]],
    ['is recorded beside other annotations', preset(1, { a: 'b' }), undefined, [['add', path, jane]]],
    ['is not the one that the request claims', preset(1, by(joe)), undefined, [['replace', path, jane]]],
    ['changes with its spec', preset(2, by(joe)), preset(1, by(joe)), [['replace', path, jane]]],
    ['stays with the same spec', preset(1, by(joe, { a: 'b' })), preset(1, by(joe)), []],
    ['cannot be changed alone', preset(1, by(jane)), preset(1, by(joe)), [['replace', path, joe]]],
    ['cannot be removed alone', preset(1, {}), preset(1, by(joe)), [['add', path, joe]]],
    ['cannot be added alone', preset(1, by(jane)), preset(1, {}), [['remove', path]]],
    ['of something that is no object is not recorded', 7, undefined, []],
    ['of an object without metadata is not recorded', { spec: {} }, undefined, []],
  ])('%s', (_, object, oldObject, expected) => expect(changes(object, oldObject)).toEqual(expected))

  test('with more than 16 KiB of groups is not recorded', () => {
    const groups = (length: number) => ['x'.repeat(length)]
    const most = 16 * 1024 - '{"username":"jane","groups":[""]}'.length
    expect(changes(preset(1), undefined, groups(most))).toHaveLength(1)
    expect(changes(preset(1), undefined, groups(most + 1))).toEqual([])
    expect(changes(preset(1, by(joe)), undefined, groups(most + 1))).toEqual([['remove', path]])
  })

  test('of a preset that nests too deep is not recorded, and the preset is refused', () => {
    const deep: unknown = JSON.parse(`${'['.repeat(9900)}${']'.repeat(9900)}`)
    expect(outcomeOf(sent({ metadata: {}, spec: { deep } }))).toEqual([expect.stringContaining('spec')])
  })

  test.each<[string, unknown, unknown]>([
    ['is read', preset(1, by(jane)), { username: 'jane', groups: ['dev'] }],
    ['is unknown without the annotation', preset(1), undefined],
    ['is unknown without metadata', 7, undefined],
    ['is unknown if the annotation is not JSON', preset(1, by('{')), undefined],
    ['is unknown if it is no object', preset(1, by('7')), undefined],
    ['is unknown without a name', preset(1, by('{"groups":[]}')), undefined],
    ['is unknown without groups', preset(1, by('{"username":"jane"}')), undefined],
    ['is unknown with groups that are no texts', preset(1, by('{"username":"jane","groups":[7]}')), undefined],
    ['is unknown if the annotation is too long', preset(1, by(jane.padEnd(16 * 1024 + 1))), undefined],
    [
      'is read from an annotation of 16 KiB',
      preset(1, by(jane.padEnd(16 * 1024))),
      { username: 'jane', groups: ['dev'] },
    ],
  ])('%s', (_, object, expected) => expect(authorOf(object)).toEqual(expected))
})
