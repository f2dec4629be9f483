/** The user's context. */
export interface Cluster {
  readonly server: string
  readonly namespace: string
  readonly isNamespaceChosen: boolean
}
