import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { krewManifest } from './krew.ts'

test.each(['vm', 'preset'] as const)(
  'the manifest of %s names an archive with the executable and the licenses for each platform',
  (plugin) => {
    const archive = { os: 'darwin', arch: 'arm64', file: 'kubectl-vm-v1.2.3-darwin-arm64.tar.gz', sha256: 'ab' }
    const { kind, metadata, spec } = parse(krewManifest(plugin, 'v1.2.3', 'https://example.org/v1.2.3', [archive]))
    expect([kind, metadata, spec.version]).toEqual(['Plugin', { name: plugin }, 'v1.2.3'])
    expect(spec.platforms).toEqual([
      {
        selector: { matchLabels: { os: 'darwin', arch: 'arm64' } },
        uri: 'https://example.org/v1.2.3/kubectl-vm-v1.2.3-darwin-arm64.tar.gz',
        sha256: 'ab',
        bin: 'kubectl-vm',
        files: [
          { from: 'kubectl-vm', to: '.' },
          { from: 'LICENSE', to: '.' },
          { from: 'LICENSE.node', to: '.' },
        ],
      },
    ])
  },
)

/** krew's own rules for an index: https://krew.sigs.k8s.io/docs/developer-guide/develop/naming-guide/ */
test.each(['vm', 'preset'] as const)('the short description of %s fits on a line and is not a sentence', (plugin) => {
  const { spec } = parse(krewManifest(plugin, 'v1.2.3', '', []))
  expect(spec.shortDescription).toMatch(/^[A-Z].{0,48}[^.]$/)
})
