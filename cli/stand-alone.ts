import { getRawAsset, getAssetKeys } from 'node:sea'
import { runChunks } from './chunks.ts'

/** The entry point of the stand-alone executable. Its assets contain the rest; see `generate-executable.ts`. */
const keys = new Set(getAssetKeys())
const bytes = (key: string): Buffer => Buffer.from(getRawAsset(key))

runChunks('main.cjs', {
  // The chunks are ASCII.
  source: (name) => bytes(name).toString('latin1'),
  cache: (name) => (keys.has(`${name}.cache`) ? bytes(`${name}.cache`) : undefined),
})
