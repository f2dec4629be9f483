import { useEffect, useRef, useState } from 'preact/hooks'
import { request } from './api.ts'
import type { Cluster } from './cluster.ts'
import { textOf } from './failure.ts'
import { html } from './html.ts'
import { isPresetPlural, kinds } from './kinds.ts'
import { List } from './list.ts'
import { placeOf, type Place } from './place.ts'
import { Preset } from './preset.ts'
import { useStored } from './stored.ts'
import { Vm } from './vm.ts'
import { VmText } from './vm-text.ts'

export function App() {
  const [place, setPlace] = useState(placeOf(location.hash))
  const [cluster, setCluster] = useState<Cluster>()
  const [error, setError] = useState('')
  const [theme, setTheme] = useStored('theme', '')
  useEffect(() => {
    const move = () => setPlace(placeOf(location.hash))
    addEventListener('hashchange', move)
    request('GET', '/cluster').then(
      (answer) => setCluster(answer as Cluster),
      (failure) => setError(textOf(failure)),
    )
    return () => removeEventListener('hashchange', move)
  }, [])
  useEffect(() => {
    document.documentElement.dataset['theme'] = theme
  }, [theme])
  const prefersDark = usePrefersDark()
  const isDark = theme === '' ? prefersDark : theme === 'dark'
  const isFirst = useRef(true)
  useEffect(() => {
    // Keyboards and screen readers continue in what is new, not at the link that has gone.
    if (!isFirst.current) document.getElementById('main')?.focus()
    isFirst.current = false
  }, [place])
  const current = place.view === 'vm' ? 'virtualmachines' : place.plural
  return html`
    <a class="skip" href="#main" onClick=${focusMain}>Skip to the content</a>
    <header class="top">
      <a class="brand" href="#/virtualmachines"><img src="icon.svg" alt="" width="26" height="26" />virtset</a>
      <nav aria-label="Kinds">
        ${Object.entries(kinds).map(
          ([plural, title]) =>
            html`<a href=${`#/${plural}`} aria-current=${plural === current ? 'page' : undefined}>${title}</a>`,
        )}
      </nav>
      <span class="server" title="The API server">${cluster?.server.replace(/^https?:\/\//, '')}</span>
      <button class="quiet" onClick=${() => setTheme(isDark ? 'light' : 'dark')}>
        ${isDark ? 'Light' : 'Dark'} theme
      </button>
    </header>
    <main id="main" tabindex="-1">
      ${error !== '' && html`<p class="problem" role="alert">${error}</p>`}
      ${cluster !== undefined && html`<${View} place=${place} cluster=${cluster} />`}
    </main>
  `
}

function View({ place, cluster }: { readonly place: Place; readonly cluster: Cluster }) {
  switch (place.view) {
    case 'list':
      return html`<${List} key=${place.plural} plural=${place.plural} cluster=${cluster} />`
    case 'vm':
      return html`<${Vm} key=${`${place.namespace}/${place.name}`} namespace=${place.namespace} name=${place.name} />`
    case 'text': {
      const { plural, namespace, name } = place
      const View = isPresetPlural(plural) ? Preset : VmText
      const key = `${plural}/${namespace}/${name}`
      return html`<${View} key=${key} plural=${plural} namespace=${namespace} name=${name} cluster=${cluster} />`
    }
  }
}

function usePrefersDark(): boolean {
  const [query] = useState(() => matchMedia('(prefers-color-scheme: dark)'))
  const [isDark, setDark] = useState(query.matches)
  useEffect(() => {
    const change = () => setDark(query.matches)
    query.addEventListener('change', change)
    return () => query.removeEventListener('change', change)
  }, [query])
  return isDark
}

function focusMain(event: Event): void {
  event.preventDefault()
  document.getElementById('main')?.focus()
}
