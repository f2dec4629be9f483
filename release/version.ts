/** As https://semver.org has it, with a leading v: without build metadata, which tags of images cannot carry. */
const pattern = /^v(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$/

/** @throws Error when VERSION is not a semantic version with a leading v */
export function parseVersion(text: string | undefined): string {
  if (text === undefined || text === '') throw new Error('VERSION is not set: make release VERSION=v0.2.0')
  if (!pattern.test(text))
    throw new Error(`VERSION=${text}: must be a semantic version with a leading v, as v0.2.0 or v0.2.0-rc.1`)
  return text
}

/** Charts carry their version without the v. */
export const withoutV = (version: string): string => version.slice(1)
