/** The blocks with this label (`CERTIFICATE`, `PRIVATE KEY`) in PEM text, whatever stands between them. */
export const pemBlocks = (text: string, label: string): readonly string[] =>
  text.match(new RegExp(`-----BEGIN ${label}-----[A-Za-z0-9+/=\\s]+-----END ${label}-----`, 'g')) ?? []
