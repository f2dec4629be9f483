import { readFileSync } from 'node:fs'

const { version }: { version: string } = JSON.parse(readFileSync('package.json', 'utf8'))

/** The tag of the images in `manifests/`. */
export const publishedTag = `v${version}`
