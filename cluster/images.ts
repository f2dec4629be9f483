import {
  cpSync,
  existsSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname, join } from 'node:path'

import { request } from 'undici'

import type { Binaries } from './binaries.ts'
import { attempt } from './command.ts'
import { guestDisk } from './guest.ts'
import { filesBelow, keyOf, keyOfFiles } from './key.ts'
import { findManifest, listReferences, prune, unpackLayers } from './layout.ts'
import type { Step } from './progress.ts'
import { ensureBaseTar, suite } from './rootfs.ts'
import type { Settings } from './settings.ts'

/** An image by what goes into it. `images/NAME/Containerfile` makes it from a context that holds this and nothing else. */
export interface ImageSource {
  readonly name: string
  /** Files of the checkout that are below `source/` in the context, under their own paths. */
  readonly files: readonly string[]
  /** Other files and directories: their path in the context, and where they are. */
  readonly extra: Readonly<Record<string, string>>
  /** Whether it stands on Debian. */
  readonly hasBase: boolean
}

/** An image that exists: its name with a tag that is the key of its content, and the OCI layout with its blobs. */
export interface Image {
  readonly name: string
  readonly reference: string
  readonly layout: string
}

/** Names of images as manifests write them and as the cluster of `make up` knows them. */
const localPrefix = 'localhost/virtset'

const isCode = (path: string) => path.endsWith('.ts') && !path.endsWith('.test.ts')
const isCodeOrData = (path: string) => isCode(path) || path.endsWith('.json')

/** The packages that the launcher imports. Another one that is missing here fails the image's build, when it fills the cache. */
const launcherModules = ['pino', 'saxes', 'xmlbuilder2']

/** What only the cluster of `make up` runs: another cluster has its own. */
function clusterSources(binaries: Binaries): ImageSource[] {
  return [
    { name: 'pause', files: [], extra: { catatonit: '/usr/bin/catatonit' }, hasBase: false },
    { name: 'coredns', files: [], extra: { coredns: join(binaries.coredns, 'coredns') }, hasBase: false },
  ]
}

/** What virtset is, on every cluster, and the target of its examples. */
function virtsetSources(settings: Settings, modules: string, disk: string): ImageSource[] {
  const below = (...folders: string[]) =>
    folders
      .filter((folder) => existsSync(join(settings.checkout, folder)))
      .flatMap((folder) => filesBelow(settings.checkout, folder, isCodeOrData))
  const inImages = (path: string) => join(settings.checkout, 'images', path)
  const node = { 'bin/node': join(settings.checkout, 'node_modules/node/bin/node'), node_modules: modules }
  const shared = ['package.json', 'images/fill-cache.ts', ...below('api', 'runtime')]
  return [
    {
      name: 'iscsi-demo',
      files: [],
      extra: { 'disk.img': disk, 'serve.sh': inImages('iscsi-demo/serve.sh') },
      hasBase: true,
    },
    {
      name: 'virtset',
      files: [...shared, ...below('presets', 'completion', 'inventory', 'webhooks', 'controller', 'handler')],
      extra: node,
      hasBase: true,
    },
    {
      name: 'launcher',
      files: [...shared, ...below('launcher')],
      extra: {
        'bin/node': node['bin/node'],
        packages: inImages('launcher/packages'),
        ...Object.fromEntries(
          withDependencies(modules, launcherModules).map((name) => [`node_modules/${name}`, join(modules, name)]),
        ),
      },
      hasBase: true,
    },
  ]
}

/** Builds the images whose content has no image yet. Gives back all of them: without the binaries, those of virtset alone. */
export async function ensureImages(step: Step, settings: Settings, binaries?: Binaries): Promise<Image[]> {
  const modules = await ensureModules(step, settings)
  const disk = await guestDisk(step, settings)
  const sources = [
    ...(binaries === undefined ? [] : clusterSources(binaries)),
    ...virtsetSources(settings, modules, disk),
  ]
  const layout = join(settings.cache, 'images')
  let built = 0
  const images: Image[] = []
  for (const source of sources) {
    const key = keyOfSource(settings, source)
    const image = {
      name: source.name,
      reference: `${localPrefix}/${source.name}:${key}`,
      layout,
    }
    if (findManifest(layout, image.reference) === undefined) {
      await build(step, settings, source, image)
      built += 1
    }
    images.push(image)
  }
  if (built > 0) await forgetOld(step, settings, layout)
  step.say(built === 0 ? 'all there' : `${built} built`)
  return images
}

/** Pushes an image under a name that begins with its registry, and gives the pushed one back. */
export async function pushImage(step: Step, settings: Settings, image: Image, prefix: string): Promise<Image> {
  const reference = `${prefix}/${image.reference.slice(localPrefix.length + 1)}`
  // buildah's own storage may have been emptied since the image was built.
  if ((await attempt(buildah(settings, ['inspect', '--type', 'image', image.reference]))) === undefined) {
    const pulled = (await step.run(buildah(settings, ['pull', '-q', `oci:${image.layout}:${image.reference}`]))).trim()
    await step.run(buildah(settings, ['tag', pulled, image.reference]))
  }
  const plain = isOnThisMachine(reference) ? ['--tls-verify=false'] : []
  await step.run(buildah(settings, ['push', '-q', ...plain, image.reference, `docker://${reference}`]))
  return { ...image, reference }
}

/** A registry on the loopback device speaks plain HTTP, for whoever runs containers. */
function isOnThisMachine(reference: string): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+)(:\d+)?\//.test(reference)
}

function keyOfSource(settings: Settings, source: ImageSource): string {
  const file = `images/${source.name}/Containerfile`
  const extra = Object.entries(source.extra).flatMap(([name, path]) => [name, keyOfPath(path)])
  const base = source.hasBase ? (settings.base ?? suite) : ''
  return keyOf(keyOfFiles(settings.checkout, [file, ...source.files]), base, ...extra)
}

/** A directory here is named by its content already. */
function keyOfPath(path: string): string {
  return statSync(path).isDirectory() ? path : keyOf(readFileSync(path))
}

/** Packages and all they depend on, which are beside them. */
function withDependencies(modules: string, names: readonly string[]): string[] {
  const found = new Set<string>()
  const visit = (name: string) => {
    if (found.has(name) || !existsSync(join(modules, name))) return
    found.add(name)
    const { dependencies = {} }: { dependencies?: Record<string, string> } = JSON.parse(
      readFileSync(join(modules, name, 'package.json'), 'utf8'),
    )
    for (const dependency of Object.keys(dependencies)) visit(dependency)
  }
  for (const name of names) visit(name)
  return [...found].sort()
}

/** A registry that does not answer is asked again after a minute, not after npm's five. */
const npmCi = ['npm', 'ci', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund', '--fetch-timeout=60000']

/** What of a package nobody runs. */
const unneeded = /\.(d\.ts|d\.mts|d\.cts|map|md|markdown)$/

/** The production dependencies, installed once for each package-lock.json. */
async function ensureModules(step: Step, settings: Settings): Promise<string> {
  const { dependencies }: { dependencies: Record<string, string> } = JSON.parse(
    readFileSync(join(settings.checkout, 'package.json'), 'utf8'),
  )
  const key = keyOf(JSON.stringify(dependencies), keyOfFiles(settings.checkout, ['package-lock.json']))
  const directory = join(settings.cache, `modules-${key}`)
  if (existsSync(directory)) return join(directory, 'node_modules')
  const unfinished = `${directory}.unfinished`
  rmSync(unfinished, { recursive: true, force: true })
  mkdirSync(unfinished, { recursive: true })
  for (const file of ['package.json', 'package-lock.json'])
    cpSync(join(settings.checkout, file), join(unfinished, file))
  step.say('installing production dependencies')
  await step.run(npmCi, { directory: unfinished })
  for (const file of filesBelow(unfinished, 'node_modules', (path) => unneeded.test(path)))
    rmSync(join(unfinished, file))
  renameSync(unfinished, directory)
  return join(directory, 'node_modules')
}

async function build(step: Step, settings: Settings, source: ImageSource, image: Image): Promise<void> {
  step.say(`building ${source.name}`)
  const context = join(settings.cache, 'context', source.name)
  stageContext(settings, source, context)
  const base = source.hasBase ? ['--build-arg', `BASE=${await ensureBase(step, settings)}`] : []
  const containerfile = join(settings.checkout, 'images', source.name, 'Containerfile')
  await step.run(
    buildah(settings, [
      'bud',
      '--layers',
      '--network=host',
      ...base,
      '-t',
      image.reference,
      '-f',
      containerfile,
      context,
    ]),
    { onLine: (line) => step.say(`building ${source.name}: ${line.slice(0, 60)}`) },
  )
  rmSync(context, { recursive: true })
  step.say(`writing ${source.name}`)
  mkdirSync(image.layout, { recursive: true })
  await step.run(buildah(settings, ['push', image.reference, `oci:${image.layout}:${image.reference}`]))
  await unpackLayers(image.layout, image.reference)
}

/** How many versions of an image stay in the cache: the present one, and what a branch or two beside it need. */
const keptVersions = 4

async function forgetOld(step: Step, settings: Settings, layout: string): Promise<void> {
  const references = listReferences(layout)
  const versions = Map.groupBy(references, (reference) => reference.slice(0, reference.lastIndexOf(':')))
  const kept = [...versions.values()].flatMap((each) => each.slice(-keptVersions))
  for (const reference of prune(layout, (each) => kept.includes(each)))
    await attempt(buildah(settings, ['rmi', reference]), { log: step.log })
}

/** Copies what the image's key was made of, and nothing else, so that the one always says the other. Its age is always the same. */
function stageContext(settings: Settings, source: ImageSource, context: string): void {
  rmSync(context, { recursive: true, force: true })
  mkdirSync(context, { recursive: true })
  const copy = (from: string, to: string) => {
    mkdirSync(dirname(to), { recursive: true })
    cpSync(from, to, { recursive: true, verbatimSymlinks: true })
  }
  for (const file of source.files) copy(join(settings.checkout, file), join(context, 'source', file))
  for (const [name, path] of Object.entries(source.extra)) copy(path, join(context, name))
  for (const entry of readdirSync(context, { recursive: true, withFileTypes: true }))
    lutimesSync(join(entry.parentPath, entry.name), 0, 0)
}

/** The name of the base image: BASE, else Debian's from its registry where that answers, else one made by mmdebstrap. */
async function ensureBase(step: Step, settings: Settings): Promise<string> {
  if (settings.base !== undefined) return settings.base
  const local = `${localPrefix}/base:${suite}`
  if ((await attempt(buildah(settings, ['inspect', '--type', 'image', local]))) !== undefined) return local
  if (await registryAnswers()) return `docker.io/library/debian:${suite}-slim`
  step.say('making the base image by mmdebstrap')
  const tar = await ensureBaseTar(step, settings)
  const container = (await step.run(buildah(settings, ['from', 'scratch']))).trim()
  await step.run(buildah(settings, ['add', container, tar, '/']))
  await step.run(buildah(settings, ['commit', '--rm', container, local]))
  return local
}

async function registryAnswers(): Promise<boolean> {
  try {
    const answer = await request('https://registry-1.docker.io/v2/', { headersTimeout: 3000 })
    await answer.body.dump()
    return answer.statusCode === 401 || answer.statusCode === 200
  } catch {
    return false
  }
}

/**
 * A buildah command whose storage is in the cache. It sees the cache's directory in the place of /var/lib/containers in a mount
 * namespace of its own, so that neither files nor mounts are left on the machine.
 */
function buildah(settings: Settings, command: readonly string[]): string[] {
  const own = join(settings.cache, 'buildah')
  const script = [
    'mkdir -p "$1/lib" "$1/run" "$1/net" /var/lib/containers /run/containers',
    // By default it locks a file below /etc/cni, which it makes.
    `printf '[network]\\nnetwork_config_dir = "%s/net"\\n' "$1" > "$1/containers.conf"`,
    'export CONTAINERS_CONF="$1/containers.conf"',
    'mount --bind "$1/lib" /var/lib/containers',
    'mount --bind "$1/run" /run/containers',
    // Directories that were made for this go again, if nothing else is in them.
    'own=/var/lib/containers other=/run/containers',
    'trap "umount --lazy $own $other; rmdir --ignore-fail-on-non-empty $own $other || :" EXIT',
    'shift',
    'BUILDAH_ISOLATION=chroot buildah "$@"',
  ].join('\n')
  return ['unshare', '--mount', '--propagation', 'private', 'sh', '-ec', script, 'buildah', own, ...command]
}
