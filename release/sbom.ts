/** The members of a component of a CycloneDX document that are used here. */
export interface Component {
  readonly type: string
  readonly name: string
  readonly version: string
  readonly purl?: string
  readonly 'bom-ref'?: string
  /** `optional` for development dependencies. */
  readonly scope?: string
  readonly properties?: readonly { readonly name: string; readonly value: string }[]
}

/** Whether npm installs the package only for development, according to `npm sbom`. */
export const isDevelopment = ({ properties = [] }: Component): boolean =>
  properties.some(({ name, value }) => name === 'cdx:npm:package:development' && value === 'true')

/** The output of `npm sbom --sbom-format cyclonedx`. */
export interface Bom {
  readonly serialNumber?: string
  readonly metadata: { readonly timestamp?: string; readonly component: Component }
  readonly components: readonly Component[]
  readonly dependencies?: readonly { readonly ref: string; readonly dependsOn?: readonly string[] }[]
}

/**
 * The bill of materials of one artifact of a release: the npm packages in it and other components. It is reproducible:
 * it has neither a serial number nor the time of the run.
 *
 * @param isIncluded whether the artifact contains an npm package; a development dependency that is included is listed
 *   as any other
 */
export function billOfMaterials(
  npm: Bom,
  artifact: { readonly name: string; readonly version: string; readonly type: 'application' | 'container' },
  isIncluded: (component: Component) => boolean,
  others: readonly Component[],
): Bom {
  const { serialNumber: _, metadata, components, dependencies, ...rest } = npm
  const { timestamp: __, ...stable } = metadata
  const ref = `${artifact.name}@${artifact.version}`
  const included = components.filter(isIncluded).map(({ scope: ___, properties: ____, ...component }) => component)
  const refs = new Set(included.flatMap((component) => component['bom-ref'] ?? []))
  const all = [
    ...included,
    ...others.map((component) => ({ ...component, 'bom-ref': component.purl ?? component.name })),
  ]
  const inner = (dependencies ?? [])
    .filter((dependency) => refs.has(dependency.ref))
    .map((dependency) => ({ ...dependency, dependsOn: dependency.dependsOn?.filter((each) => refs.has(each)) ?? [] }))
  return {
    ...rest,
    metadata: { ...stable, component: { 'bom-ref': ref, ...artifact } },
    components: all,
    dependencies: [{ ref, dependsOn: all.flatMap((component) => component['bom-ref'] ?? []) }, ...inner],
  }
}

/** The installed packages in dpkg's file `status`. */
export function debianComponents(status: string, suite: string): Component[] {
  const field = (stanza: string, name: string) => new RegExp(`^${name}: (.+)$`, 'm').exec(stanza)?.[1] ?? ''
  return status
    .split('\n\n')
    .filter((stanza) => field(stanza, 'Status').endsWith(' installed'))
    .map((stanza) => ({
      type: 'library',
      name: field(stanza, 'Package'),
      version: field(stanza, 'Version'),
      purl: `pkg:deb/debian/${field(stanza, 'Package')}@${encodeURIComponent(field(stanza, 'Version'))}?arch=${field(stanza, 'Architecture')}&distro=${suite}`,
    }))
}

export const nodeComponent = (version: string): Component => ({
  type: 'platform',
  name: 'node',
  version,
  purl: `pkg:generic/node@${version}`,
})
