import { describe, expect, it } from 'vitest'
import type { Volume } from '../api/volume.ts'
import { explainPull, explainUnsupported } from './image-volume.ts'

const launcher = 'localhost/virtset/launcher:1'
const image = (name: string, reference: string) => ({ name, image: { reference } })
const claimFrom = (name: string, reference: string) => ({
  name,
  persistentVolumeClaim: { claimName: 'c', source: { image: { reference } } },
})
const seed = { name: 'seed', cloudInit: {} }

describe('the message about an image', () => {
  it.each<[string, readonly Volume[], string, string]>([
    ['names its volume', [image('root', 'a:1'), image('data', 'b:1')], 'Back-off pulling image "b:1": x', '"data"'],
    ['names all its volumes', [image('a', 'x'), image('b', 'x'), image('c', 'y')], 'pull "x"', '"a", "b"'],
    [
      'may have the default tag',
      [image('a', 'x'), image('b', 'y')],
      'unpack image "docker.io/library/x:latest"',
      '"a"',
    ],
    ['may have the default registry', [image('a', 'u/x:1'), image('b', 'y')], 'image "docker.io/u/x:1": no', '"a"'],
    ['does not name the image', [image('a', 'x')], 'rpc error: code = NotFound desc = no match for platform', '"a"'],
    ['is of a claim that is filled', [image('a', 'x'), claimFrom('b', 'y:1')], 'pull "y:1"', '"b"'],
    [
      'is of a registry that is away',
      [image('a', 'r.example/x:1'), claimFrom('b', 'y')],
      'failed to pull and unpack image "r.example/x:1": failed to resolve image: failed to do request: Head "https://r.example/v2/x/manifests/1": dial tcp 192.0.2.1:443: i/o timeout',
      '"a"',
    ],
    [
      'is of a registry that responds with 500',
      [image('a', 'x'), claimFrom('b', 'r.example/y:1')],
      'failed to pull and unpack image "r.example/y:1": failed to resolve image: unexpected status from HEAD request to https://r.example/v2/y/manifests/1: 500 Internal Server Error',
      '"b"',
    ],
    ['is about the only one', [image('a', 'x')], `ImageVolumeMountFailed: only directory subpath is supported`, '"a"'],
  ])('%s', (_, images, message, names) => {
    expect(explainPull(message, { volumes: [seed, ...images] }, launcher)).toBe(`volume ${names}: ${message}`)
  })

  it.each<[string, readonly ReturnType<typeof image>[], string]>([
    ['of the launcher', [image('a', 'x')], `Back-off pulling image "${launcher}"`],
    ['that is not clear', [image('a', 'x'), image('b', 'y')], 'rpc error: code = NotFound'],
    ['whose name begins alike', [image('a', 'x'), image('b', 'y')], 'Back-off pulling image "xy"'],
    ['of a VM without images', [], 'Back-off pulling image "x"'],
  ])('%s remains', (_, images, message) => {
    expect(explainPull(message, { volumes: [seed, ...images] }, launcher)).toBe(message)
  })

  it('remains for a VM without volumes', () => expect(explainPull('x', {}, launcher)).toBe('x'))
})

describe('a cluster without image volumes', () => {
  const refused = 'Pod "p" is invalid: spec.volumes[5]: Required value: must specify a volume type'

  it('is explained', () => {
    expect(explainUnsupported(refused, { volumes: [seed, image('root', 'x')] })).toBe(
      `volume "root": this cluster has no image volumes, which require Kubernetes 1.35, or 1.33 with the feature gate ImageVolume; use a persistentVolumeClaim, or upgrade. The API server responded: ${refused}`,
    )
  })

  it.each<[string, string, { volumes?: readonly ReturnType<typeof image>[] }]>([
    ['another refusal', 'exceeded quota', { volumes: [image('root', 'x')] }],
    ['a VM without images', refused, {}],
  ])('is not assumed for %s', (_, message, spec) => expect(explainUnsupported(message, spec)).toBe(message))
})
