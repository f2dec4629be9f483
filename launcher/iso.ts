import { execFile } from 'node:child_process'
import { access, mkdir, readdir, realpath, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** By name: the text of a file, or where it is. */
export type FilesOfIso = Readonly<Record<string, { readonly text: string } | { readonly path: string }>>

/** ISO 9660's limit. */
export const longestLabel = 32

/** Creates an ISO with long lower-case file names, unless it exists. */
export async function makeIso(image: string, label: string, files: FilesOfIso): Promise<void> {
  if (await exists(image)) return
  const staged = `${image}.files`
  const unfinished = `${image}.unfinished`
  await mkdir(staged, { recursive: true })
  const places = [staged]
  for (const [name, file] of Object.entries(files)) {
    if ('text' in file) await writeFile(join(staged, name), file.text)
    // The kubelet mounts links, which the ISO would contain as they are.
    else places.push(`${name}=${await realpath(file.path)}`)
  }
  await promisify(execFile)('genisoimage', isoArguments(unfinished, label, places))
  await rm(staged, { recursive: true })
  await rename(unfinished, image)
}

function isoArguments(image: string, label: string, places: readonly string[]): string[] {
  const options = ['-quiet', '-output', image, '-volid', label, '-joliet', '-rational-rock', '-graft-points']
  // The key of a Secret can begin with a dash.
  return [...options, '--', ...places]
}

/**
 * The keys of Secrets and ConfigMaps that the kubelet mounted in a folder; the names of its own begin with two dots.
 */
export async function filesIn(folder: string): Promise<FilesOfIso> {
  const names = (await readdir(folder)).filter((name) => !name.startsWith('..'))
  return Object.fromEntries(names.map((name) => [name, { path: join(folder, name) }]))
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )
