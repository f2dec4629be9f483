import { createHash } from 'node:crypto'
import { createReadStream, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { parseAllDocuments } from 'yaml'

import { pageLibraries } from '../cli/page-libraries.ts'
import { ensureTool } from '../cluster/binaries.ts'
import { buildPackages, findKubectl } from '../cluster/existing-cluster.ts'
import { ensureImages, isOnThisHost, type Image } from '../cluster/images.ts'
import { overlay, published } from '../cluster/install.ts'
import { ensurePackages } from '../cluster/packages.ts'
import type { Progress, Step } from '../cluster/progress.ts'
import { suite } from '../cluster/rootfs.ts'
import type { Settings } from '../cluster/settings.ts'
import { debianStatus, writeArchive } from './image-archive.ts'
import { renderChart, switches, type KubernetesObject } from './chart.ts'
import { makeExecutable, packExecutable, packReproducibly, targets } from './executables.ts'
import { krewManifest, type Archive } from './krew.ts'
import { billOfMaterials, debianComponents, isDevelopment, nodeComponent, type Bom, type Component } from './sbom.ts'
import { withoutV } from './version.ts'

/** An image of a release, which the manifests refer to. */
interface ReleasedImage {
  readonly name: string
  /** The reference by digest that clusters pull. */
  readonly reference: string
  readonly archive: string
}

/**
 * Writes all files of a release to `dist/VERSION` and returns that directory. If IMAGE_PREFIX is set, also pushes the
 * images and the chart.
 *
 * @param downloads the URL where the files will be published, without a trailing slash
 */
export async function release(
  progress: Progress,
  settings: Settings,
  version: string,
  downloads: string,
): Promise<string> {
  const directory = join(settings.checkout, 'dist', version)
  const scratch = join(settings.cache, 'release')
  for (const each of [directory, scratch]) rmSync(each, { recursive: true, force: true })
  for (const each of [directory, scratch]) mkdirSync(each, { recursive: true })
  const push = settings.imagePrefix !== undefined
  const prefix = (settings.imagePrefix ?? published).replace(/\/+$/, '')

  await progress.step('System packages', 'check that apt-get works here, as root', (step) =>
    ensurePackages(step, [...buildPackages, ...(push ? ['skopeo'] : [])]),
  )
  const tools = await progress.step(
    'kubectl, helm, quill',
    'Go >= 1.26 and a Go module proxy are needed',
    async (step) => ({
      kubectl: await findKubectl(step, settings),
      helm: await ensureTool(step, settings, 'helm'),
      quill: await ensureTool(step, settings, 'quill'),
    }),
  )
  const built = await progress.step('Images', 'check that a Debian mirror and the npm registry respond', (step) =>
    ensureImages(step, settings),
  )
  const images = await progress.step('Image archives', 'read the log', async (step) => {
    const archived: ReleasedImage[] = []
    for (const image of built) archived.push(await archiveImage(step, settings, image, prefix, version, directory))
    return archived
  })
  const renderings = await progress.step('install.yaml', 'read the log', async (step) => {
    const base = await kustomize(step, settings, tools.kubectl, 'manifests', images)
    writeFileSync(join(directory, 'install.yaml'), base)
    const overlays: Record<string, readonly KubernetesObject[]> = {}
    for (const [value, name] of Object.entries(switches))
      overlays[value] = objectsOf(await kustomize(step, settings, tools.kubectl, `manifests/overlays/${name}`, images))
    return { base: objectsOf(base), overlays }
  })
  const chart = await progress.step('Helm chart', 'read the log', async (step) => {
    const folder = join(scratch, 'virtset')
    for (const [name, text] of Object.entries(renderChart(renderings, withoutV(version)))) {
      mkdirSync(dirname(join(folder, name)), { recursive: true })
      writeFileSync(join(folder, name), text)
    }
    await step.run([tools.helm, 'lint', '--strict', folder])
    const file = join(directory, `virtset-${withoutV(version)}.tgz`)
    await packReproducibly(step, scratch, ['virtset'], file)
    await step.run([tools.helm, 'show', 'chart', file])
    return file
  })
  await progress.step('kubectl vm', 'check that the npm registry responds', async (step) => {
    const archives: Archive[] = []
    for (const target of targets) {
      step.show(`${target.os} ${target.arch}`)
      const executable = join(scratch, `kubectl-vm-${target.os}-${target.arch}`)
      await makeExecutable(step, settings, target, version, tools.quill, executable)
      const file = await packExecutable(step, settings, target, version, executable, directory)
      archives.push({ os: target.os, arch: target.arch, file, sha256: await sha256(join(directory, file)) })
    }
    for (const plugin of ['vm', 'preset'] as const) {
      writeFileSync(join(directory, `${plugin}.yaml`), krewManifest(plugin, version, downloads, archives))
    }
    step.show(`for ${targets.map(({ os, arch }) => `${os} ${arch}`).join(', ')}`)
  })
  await progress.step('Bills of materials', 'read the log', (step) =>
    writeBills(step, settings, built, version, directory),
  )
  await progress.step('Checksums', 'read the log', () => writeChecksums(directory))
  if (push)
    await progress.step(`Push to ${prefix}`, 'is REGISTRY_AUTH_FILE right?', async (step) => {
      for (const image of images) await pushArchive(step, image, `${prefix}/${image.name}:${version}`)
      const plain = isOnThisHost(prefix) ? ['--plain-http'] : []
      await step.run([tools.helm, 'push', ...plain, chart, `oci://${prefix}/charts`])
    })
  rmSync(scratch, { recursive: true })
  return directory
}

async function archiveImage(
  step: Step,
  settings: Settings,
  image: Image,
  prefix: string,
  version: string,
  directory: string,
): Promise<ReleasedImage> {
  step.show(image.name)
  const layout = join(settings.cache, 'release', `${image.name}-layout`)
  const digest = await writeArchive(image, layout, `${prefix}/${image.name}:${version}`)
  const archive = join(directory, `${image.name}-${version}-linux-amd64.oci.tar`)
  await packReproducibly(step, layout, readdirSync(layout).toSorted(), archive)
  rmSync(layout, { recursive: true })
  return { name: image.name, reference: `${prefix}/${image.name}@${digest}`, archive }
}

/** Copies an archive to a registry unchanged, because install.yaml refers to its digest. */
async function pushArchive(step: Step, { archive }: ReleasedImage, reference: string): Promise<void> {
  const plain = isOnThisHost(reference) ? ['--dest-tls-verify=false'] : []
  const auth = process.env['REGISTRY_AUTH_FILE']
  const login = auth === undefined ? [] : ['--authfile', auth]
  const command = ['skopeo', 'copy', '--quiet', '--preserve-digests', ...plain, ...login]
  await step.run([...command, `oci-archive:${archive}`, `docker://${reference}`])
}

async function kustomize(
  step: Step,
  settings: Settings,
  kubectl: string,
  manifests: string,
  images: readonly ReleasedImage[],
): Promise<string> {
  const folder = join(settings.cache, 'release/kustomization')
  mkdirSync(folder, { recursive: true })
  writeFileSync(
    join(folder, 'kustomization.yaml'),
    overlay(relative(folder, join(settings.checkout, manifests)), images),
  )
  return step.run([kubectl, 'kustomize', folder])
}

export const objectsOf = (text: string): KubernetesObject[] =>
  parseAllDocuments(text).map((document): KubernetesObject => document.toJS())

async function writeBills(
  step: Step,
  settings: Settings,
  images: readonly Image[],
  version: string,
  directory: string,
): Promise<void> {
  const npm = ['npm', 'sbom', '--sbom-format=cyclonedx', '--package-lock-only']
  const bom: Bom = JSON.parse(await step.run(npm, { directory: settings.checkout }))
  const node = nodeComponent(process.versions.node)
  const write = (name: string, bill: Bom) =>
    writeFileSync(join(directory, `${name}-${version}.cdx.json`), `${JSON.stringify(bill, undefined, 2)}\n`)
  for (const image of images) {
    const debian = debianComponents(await debianStatus(image), suite)
    const isIncluded = (component: Component) => !isDevelopment(component) && image.npmPackages.includes(component.name)
    const others = image.npmPackages.length === 0 ? debian : [node, ...debian]
    write(image.name, billOfMaterials(bom, { name: image.name, version, type: 'container' }, isIncluded, others))
  }
  const nodes = [...new Set(targets.map((target) => target.node.version))].map(nodeComponent)
  // The libraries of the page are development dependencies, because the images do not contain them.
  const isInExecutable = (component: Component) => !isDevelopment(component) || component.name in pageLibraries
  write('kubectl-vm', billOfMaterials(bom, { name: 'kubectl-vm', version, type: 'application' }, isInExecutable, nodes))
}

async function writeChecksums(directory: string): Promise<void> {
  const files = readdirSync(directory).toSorted()
  const lines = await Promise.all(files.map(async (file) => `${await sha256(join(directory, file))}  ${file}\n`))
  writeFileSync(join(directory, 'SHA256SUMS'), lines.join(''))
}

async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}
