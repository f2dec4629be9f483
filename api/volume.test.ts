import { describe, expect, test } from 'vitest'
import type { Volume } from './volume.ts'
import { checkVolumes, imageVolumesOf } from './volume.ts'

describe('a volume', () => {
  const problems = (volume: Volume) => checkVolumes([volume], 'v').map(({ rule, field }) => `${rule} ${field}`)
  const data = { persistentVolumeClaim: { claimName: 'data.disk-1' } }

  test.each<[string, Volume, string[]]>([
    ['an empty disk', { name: 'scratch', emptyDisk: { capacity: '1Gi' } }, []],
    ['a claim', { name: 'data', ...data }, []],
    ['a cloud-init image', { name: 'seed', cloudInit: {} }, []],
    ['an image', { name: 'root', image: { reference: 'quay.io/containerdisks/debian:13' } }, []],
    [
      'an image with each field',
      { name: 'root', image: { reference: 'a', pullPolicy: 'Never', path: '/a/b c.qcow2', capacity: '20Gi' } },
      [],
    ],
    [
      'an image of an invalid name',
      { name: 'x', image: { reference: 'Not A/Ref:1:2' } },
      ['image-reference v[0].image.reference'],
    ],
    [
      'an image of no size',
      { name: 'x', image: { reference: 'a', capacity: '0' } },
      ['volume-capacity v[0].image.capacity'],
    ],
    ...['..', 'disk/../../private/x', '/../x', '//x', 'disk/', '.', '/', 'a\nb', 'a\u202eb'].map(
      (path): [string, Volume, string[]] => [
        `an image with the path ${JSON.stringify(path)}`,
        { name: 'x', image: { reference: 'a', path } },
        ['image-path v[0].image.path'],
      ],
    ),
    ['of no kind', { name: 'x' }, ['volume-kind v[0]']],
    ['of two kinds', { name: 'x', cloudInit: {}, ...data }, ['volume-kind v[0].cloudInit']],
    ['with a name that no pod volume can have', { name: 'A b', cloudInit: {} }, ['volume-name v[0].name']],
    [
      'of an invalid claim name',
      { name: 'x', persistentVolumeClaim: { claimName: '../x' } },
      ['claim-name v[0].persistentVolumeClaim.claimName'],
    ],
    ['of no size', { name: 'x', emptyDisk: { capacity: '0' } }, ['volume-capacity v[0].emptyDisk.capacity']],
    [
      'of more bytes than a file can have',
      { name: 'x', emptyDisk: { capacity: '1e999' } },
      ['volume-capacity v[0].emptyDisk.capacity'],
    ],
    [
      'of 2^63 bytes',
      { name: 'x', image: { reference: 'a', capacity: '8Ei' } },
      ['volume-capacity v[0].image.capacity'],
    ],
    ['of 2^63-1 bytes', { name: 'x', emptyDisk: { capacity: '9223372036854775807' } }, []],
    ['of a size in words', { name: 'x', emptyDisk: { capacity: 'much' } }, ['volume-capacity v[0].emptyDisk.capacity']],
  ])('%s', (_, volume, expected) => expect(problems(volume)).toEqual(expected))
})

test('the volumes of images are found by name', () => {
  const given: readonly Volume[] = [
    { name: 'root', image: { reference: 'a' } },
    { name: 'seed', cloudInit: {} },
  ]
  expect([imageVolumesOf(given), imageVolumesOf()]).toEqual([new Set(['root']), new Set()])
})
