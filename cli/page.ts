import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { getRawAsset, isSea } from 'node:sea'
import { promisify } from 'node:util'

/** The files of the page, by their names. */
export type Page = ReadonlyMap<PageFile, Buffer>
export type PageFile = (typeof pageFiles)[number]

/** The files that `generate-page.ts` writes. */
export const pageFiles = ['index.html', 'page.js', 'page.css', 'icon.svg', 'licenses.txt'] as const

/** The name of a file of the page among the assets of the executable. */
export const assetOf = (file: PageFile): string => `page/${file}`

/** The executable contains the page; a checkout bundles it first, which takes 2 s. */
export async function readPage(): Promise<Page> {
  if (isSea()) return new Map(pageFiles.map((file) => [file, Buffer.from(getRawAsset(assetOf(file)))]))
  const root = join(import.meta.dirname, '..')
  const folder = join(root, 'dist/page')
  await promisify(execFile)(process.execPath, [join(root, 'cli/generate-page.ts'), folder])
  return new Map(await Promise.all(pageFiles.map(async (file) => [file, await readFile(join(folder, file))] as const)))
}
