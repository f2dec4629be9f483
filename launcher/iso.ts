import { execFile } from 'node:child_process'
import { access, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
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
  // An earlier attempt can have left other files.
  await rm(staged, { recursive: true, force: true })
  await mkdir(staged)
  for (const [name, file] of Object.entries(files)) {
    // The kubelet mounts links, and can replace the directory that they lead to at any moment.
    await writeFile(join(staged, name), 'text' in file ? file.text : await readFile(file.path))
  }
  await promisify(execFile)('genisoimage', isoArguments(unfinished, label, staged))
  await rm(staged, { recursive: true })
  await rename(unfinished, image)
}

const isoArguments = (image: string, label: string, directory: string): string[] => [
  '-quiet',
  '-output',
  image,
  '-volid',
  label,
  '-joliet',
  '-rational-rock',
  '--',
  directory,
]

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
