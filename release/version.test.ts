import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { publishedTag } from '../test/published-tag.ts'
import { parseVersion, withoutV } from './version.ts'

test.each(['v0.2.0', 'v10.0.12', 'v1.0.0-rc.1'])('%s is a version', (text) => {
  expect(parseVersion(text)).toBe(text)
})

test.each([undefined, ''])('%j is missing', (text) => {
  expect(() => parseVersion(text)).toThrow('VERSION is not set: make release VERSION=v0.2.0')
})

test.each(['0.2.0', 'v0.2', 'v01.2.3', 'v1.2.3+build', 'v1.2.3-', 'latest', 'v1.2.3/x'])('%s is refused', (text) => {
  expect(() => parseVersion(text)).toThrow(
    `VERSION=${text}: must be a semantic version with a leading v, as v0.2.0 or v0.2.0-rc.1`,
  )
})

test('a chart has its version without the v', () => {
  expect(withoutV('v1.2.3')).toBe('1.2.3')
})

test.each(['base', 'examples', 'overlays/own-images'])(
  'manifests/%s names images of the version of package.json',
  (folder) => {
    const { images }: { images: { newTag: string }[] } = parse(
      readFileSync(`manifests/${folder}/kustomization.yaml`, 'utf8'),
    )
    expect(new Set(images.map(({ newTag }) => newTag))).toEqual(new Set([publishedTag]))
  },
)
