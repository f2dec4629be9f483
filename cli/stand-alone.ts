import { getRawAsset, getAssetKeys } from 'node:sea'
import { runChunks } from './chunks.ts'

/** The entry of the stand-alone executable: all else is in its assets, see `generate-executable.ts`. */
const keys = new Set(getAssetKeys())
const bytes = (key: string): Buffer => Buffer.from(getRawAsset(key))

runChunks('main.cjs', {
  // Only ASCII is in there, which `latin1` takes as it is.
  source: (name) => bytes(name).toString('latin1'),
  cache: (name) => (keys.has(`${name}.cache`) ? bytes(`${name}.cache`) : undefined),
})
