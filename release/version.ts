/** The syntax of https://semver.org with a leading v, but without build metadata, which image tags cannot contain. */
const pattern = /^v(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$/

/** @throws Error if VERSION is not a semantic version with a leading v */
export function parseVersion(text: string | undefined): string {
  if (text === undefined || text === '') throw new Error('VERSION is not set: make release VERSION=v0.2.0')
  if (!pattern.test(text))
    throw new Error(`VERSION=${text}: must be a semantic version with a leading v, as v0.2.0 or v0.2.0-rc.1`)
  return text
}

/** Versions of charts have no leading v. */
export const withoutV = (version: string): string => version.slice(1)
