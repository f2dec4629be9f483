import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Writes a file unless it already has this text, because some programs exit when their configuration changes. Returns
 * the text.
 */
export function ensureFile(path: string, text: string, mode = 0o644): string {
  if (existsSync(path) && readFileSync(path, 'utf8') === text) return text
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(`${path}.unfinished`, text, { mode })
  renameSync(`${path}.unfinished`, path)
  return text
}
