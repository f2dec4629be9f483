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
import { basename, dirname, join } from 'node:path'

import { request } from 'undici'

import type { Binaries } from './binaries.ts'
import { attempt } from './command.ts'
import { guestDisk } from './guest.ts'
import { packagesOf } from './imports.ts'
import { filesBelow, keyOf, keyOfFiles } from './key.ts'
import { findManifest, listReferences, prune, unpackLayers } from './layout.ts'
import { ensureLinuxGuest } from './linux-guest.ts'
import type { Step } from './progress.ts'
import { ensureBaseTar, suite } from './rootfs.ts'
import type { Settings } from './settings.ts'

/** The inputs of an image. `images/NAME/Containerfile` builds it from a context that contains only these. */
export interface ImageSource {
  readonly name: string
  /** Files of the checkout, copied below `source/` in the context. */
  readonly files: readonly string[]
  /** Other files and directories: path in the context → path on the host. */
  readonly extra: Readonly<Record<string, string>>
  /** Whether it is based on Debian. */
  readonly hasBase: boolean
  /** The npm packages in it. */
  readonly npmPackages?: readonly string[]
}

/** A built image: its name with a tag that is the key of its content, and the OCI layout with its blobs. */
export interface Image {
  readonly name: string
  readonly reference: string
  readonly layout: string
  readonly npmPackages: readonly string[]
}

/** The prefix of images in the cluster of `make up`. */
const localPrefix = 'localhost/virtset'

const isCode = (path: string) => path.endsWith('.ts') && !path.endsWith('.test.ts')
const isCodeOrData = (path: string) => isCode(path) || /\.(json|proto)$/.test(path)

/** The disks in images of the cluster of `make up`: the demo guest, and a small Linux. */
interface GuestDisks {
  readonly demo: string
  readonly linux: string
}

/** The images that the cluster of `make up` itself needs, and the disks of VMs. */
function clusterSources(binaries: Binaries, disks: GuestDisks): ImageSource[] {
  return [
    { name: 'pause', files: [], extra: { catatonit: '/usr/bin/catatonit' }, hasBase: false },
    { name: 'coredns', files: [], extra: { coredns: join(binaries.coredns, 'coredns') }, hasBase: false },
    { name: 'demo-disk', files: [], extra: { 'disk.img': disks.demo }, hasBase: false },
    { name: 'linux-guest', files: [], extra: { 'disk.qcow2': disks.linux }, hasBase: false },
  ]
}

/** The images of virtset, and the iSCSI target of its examples. */
function virtsetSources(settings: Settings, modules: string, disk: string): ImageSource[] {
  const below = (...folders: string[]) =>
    folders
      .filter((folder) => existsSync(join(settings.checkout, folder)))
      .flatMap((folder) => filesBelow(settings.checkout, folder, isCodeOrData))
  const inImages = (path: string) => join(settings.checkout, 'images', path)
  const filesIn = (folder: string) => (existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : [])
  const node = { 'bin/node': join(settings.checkout, 'node_modules/node/bin/node'), node_modules: modules }
  const ofLauncher = withDependencies(
    modules,
    packagesOf(settings.checkout, ['launcher/main.ts', 'launcher/profile/main.ts']),
  )
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
      npmPackages: withDependencies(modules, Object.keys(dependenciesOf(settings))),
    },
    {
      name: 'launcher',
      files: [...shared, ...below('launcher')],
      extra: {
        'bin/node': node['bin/node'],
        packages: inImages('launcher/packages'),
        // An earlier version, which the upgrade test builds, has none of these.
        ...Object.fromEntries(
          ['guest-probe', 'serve-volume']
            .filter((name) => existsSync(inImages(join('launcher', name))))
            .map((name) => [name, inImages(join('launcher', name))]),
        ),
        ...Object.fromEntries(
          ['passt', 'virtiofsd'].flatMap((folder) =>
            filesIn(inImages(join('launcher', folder))).map((path) => [`${folder}/${basename(path)}`, path]),
          ),
        ),
        ...Object.fromEntries(ofLauncher.map((name) => [`node_modules/${name}`, join(modules, name)])),
      },
      hasBase: true,
      npmPackages: ofLauncher,
    },
  ]
}

/**
 * Builds the images that do not exist for the current content. Returns all of them; without `binaries`, only those of
 * virtset.
 */
export async function ensureImages(step: Step, settings: Settings, binaries?: Binaries): Promise<Image[]> {
  const modules = await ensureModules(step, settings)
  const demo = await guestDisk(step, settings)
  const ofCluster =
    binaries === undefined ? [] : clusterSources(binaries, { demo, linux: await ensureLinuxGuest(step, settings) })
  const sources = [...ofCluster, ...virtsetSources(settings, modules, demo)]
  const layout = join(settings.cache, 'images')
  let built = 0
  const images: Image[] = []
  for (const source of sources) {
    const key = keyOfSource(settings, source)
    const image = {
      name: source.name,
      reference: `${localPrefix}/${source.name}:${key}`,
      layout,
      npmPackages: source.npmPackages ?? [],
    }
    if (findManifest(layout, image.reference) === undefined) {
      await build(step, settings, source, image)
      built += 1
    }
    images.push(image)
  }
  if (built > 0) await removeOld(step, settings, layout)
  step.show(built === 0 ? 'up to date' : `${built} built`)
  return images
}

/** Pushes an image under a name with this prefix, and returns the pushed image. */
export async function pushImage(step: Step, settings: Settings, image: Image, prefix: string): Promise<Image> {
  const reference = `${prefix}/${image.reference.slice(localPrefix.length + 1)}`
  // buildah's own storage may have been emptied since the image was built.
  if ((await attempt(buildah(settings, ['inspect', '--type', 'image', image.reference]))) === undefined) {
    const pulled = (await step.run(buildah(settings, ['pull', '-q', `oci:${image.layout}:${image.reference}`]))).trim()
    await step.run(buildah(settings, ['tag', pulled, image.reference]))
  }
  const plain = isOnThisHost(reference) ? ['--tls-verify=false'] : []
  await step.run(buildah(settings, ['push', '-q', ...plain, image.reference, `docker://${reference}`]))
  return { ...image, reference }
}

/** Container tools use plain HTTP for a registry on the loopback device. */
export function isOnThisHost(reference: string): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+)(:\d+)?\//.test(reference)
}

function keyOfSource(settings: Settings, source: ImageSource): string {
  const file = `images/${source.name}/Containerfile`
  const extra = Object.entries(source.extra).flatMap(([name, path]) => [name, keyOfPath(path)])
  const base = source.hasBase ? (settings.base ?? suite) : ''
  return keyOf(keyOfFiles(settings.checkout, [file, ...source.files]), base, ...extra)
}

/** The name of a directory already contains the key of its content. */
function keyOfPath(path: string): string {
  return statSync(path).isDirectory() ? path : keyOf(readFileSync(path))
}

/** Packages and all their dependencies. */
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

/** Retries a registry that does not respond after one minute instead of npm's five. */
const npmCi = ['npm', 'ci', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund', '--fetch-timeout=60000']

/** Files of packages that are not needed at run time. */
const unneeded = /\.(d\.ts|d\.mts|d\.cts|map|md|markdown)$/

/** The production dependencies, installed once for each package-lock.json. */
async function ensureModules(step: Step, settings: Settings): Promise<string> {
  const key = keyOf(JSON.stringify(dependenciesOf(settings)), keyOfFiles(settings.checkout, ['package-lock.json']))
  const directory = join(settings.cache, `modules-${key}`)
  if (existsSync(directory)) return join(directory, 'node_modules')
  const unfinished = `${directory}.unfinished`
  rmSync(unfinished, { recursive: true, force: true })
  mkdirSync(unfinished, { recursive: true })
  for (const file of ['package.json', 'package-lock.json'])
    cpSync(join(settings.checkout, file), join(unfinished, file))
  step.show('installing production dependencies')
  await step.run(npmCi, { directory: unfinished })
  for (const file of filesBelow(unfinished, 'node_modules', (path) => unneeded.test(path)))
    rmSync(join(unfinished, file))
  renameSync(unfinished, directory)
  return join(directory, 'node_modules')
}

function dependenciesOf({ checkout }: Settings): Readonly<Record<string, string>> {
  const { dependencies }: { dependencies: Record<string, string> } = JSON.parse(
    readFileSync(join(checkout, 'package.json'), 'utf8'),
  )
  return dependencies
}

async function build(step: Step, settings: Settings, source: ImageSource, image: Image): Promise<void> {
  step.show(`building ${source.name}`)
  // Another checkout can be building the same image.
  const context = join(settings.cache, 'context', `${source.name}-${process.pid}`)
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
    { onLine: (line) => step.show(`building ${source.name}: ${line.slice(0, 60)}`) },
  )
  rmSync(context, { recursive: true })
  step.show(`writing ${source.name}`)
  mkdirSync(image.layout, { recursive: true })
  await step.run(buildah(settings, ['push', image.reference, `oci:${image.layout}:${image.reference}`]))
  await unpackLayers(image.layout, image.reference)
}

/** The number of versions of an image in the cache: the current one, and those of a few other branches. */
const cachedVersions = 4

async function removeOld(step: Step, settings: Settings, layout: string): Promise<void> {
  const references = listReferences(layout)
  const versions = Map.groupBy(references, (reference) => reference.slice(0, reference.lastIndexOf(':')))
  const recent = [...versions.values()].flatMap((each) => each.slice(-cachedVersions))
  for (const reference of prune(layout, (each) => recent.includes(each)))
    await attempt(buildah(settings, ['rmi', reference]), { log: step.log })
}

/** Copies exactly the inputs of the image's key, with fixed times, so that equal keys mean equal contexts. */
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

/**
 * The name of the base image: BASE if set, otherwise Debian's if its registry responds, otherwise one built by
 * mmdebstrap.
 */
async function ensureBase(step: Step, settings: Settings): Promise<string> {
  if (settings.base !== undefined) return settings.base
  const local = `${localPrefix}/base:${suite}`
  if ((await attempt(buildah(settings, ['inspect', '--type', 'image', local]))) !== undefined) return local
  if (await registryResponds()) return `docker.io/library/debian:${suite}-slim`
  step.show('building the base image with mmdebstrap')
  const tar = await ensureBaseTar(step, settings)
  const container = (await step.run(buildah(settings, ['from', 'scratch']))).trim()
  await step.run(buildah(settings, ['add', container, tar, '/']))
  await step.run(buildah(settings, ['commit', '--rm', container, local]))
  return local
}

async function registryResponds(): Promise<boolean> {
  try {
    const response = await request('https://registry-1.docker.io/v2/', { headersTimeout: 3000 })
    await response.body.dump()
    return response.statusCode === 401 || response.statusCode === 200
  } catch {
    return false
  }
}

/**
 * A buildah command whose storage is in the cache. It runs in a mount namespace in which the cache's directory is
 * mounted at /var/lib/containers, so that neither files nor mounts remain on the host.
 */
function buildah(settings: Settings, command: readonly string[]): string[] {
  const own = join(settings.cache, 'buildah')
  const script = [
    'mkdir -p "$1/lib" "$1/run" "$1/net" /var/lib/containers /run/containers',
    // By default it creates and locks a file below /etc/cni.
    `printf '[network]\\nnetwork_config_dir = "%s/net"\\n' "$1" > "$1/containers.conf"`,
    'export CONTAINERS_CONF="$1/containers.conf"',
    'mount --bind "$1/lib" /var/lib/containers',
    'mount --bind "$1/run" /run/containers',
    // Removes the mount points that were created for this, if they are empty.
    'own=/var/lib/containers other=/run/containers',
    'trap "umount --lazy $own $other; rmdir --ignore-fail-on-non-empty $own $other || :" EXIT',
    'shift',
    'BUILDAH_ISOLATION=chroot buildah "$@"',
  ].join('\n')
  return ['unshare', '--mount', '--propagation', 'private', 'sh', '-ec', script, 'buildah', own, ...command]
}
