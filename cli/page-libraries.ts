/** The npm packages in the bundle of the page of `kubectl vm ui`, with the files of their licenses. */
export const pageLibraries: { readonly [name: string]: string } = {
  '@novnc/novnc': 'LICENSE.txt',
  '@xterm/xterm': 'LICENSE',
  '@xterm/addon-fit': 'LICENSE',
  preact: 'LICENSE',
  htm: 'LICENSE',
}
