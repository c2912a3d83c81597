/** Notifications of the browser: shown while a page of the team is open, after the user has allowed it. */

/** Whether the browser shows notifications: "granted", "denied", "default" (not asked yet) or "none". */
export function permission() {
  return "Notification" in window ? Notification.permission : "none";
}

/** Ask the user: what was decided. */
export function askPermission() {
  return Notification.requestPermission();
}

/** Show what is due. Of several pages that are open, the browser shows one of each title. */
export function tellBrowser({ subscription, titles }) {
  if (permission() !== "granted" || titles.length === 0) return;
  const more = titles.length > 1 ? ` and ${titles.length - 1} more` : "";
  const shown = new Notification(titles[0] + more, { body: `Because of your subscription “${subscription}”`, tag: `${subscription}: ${titles[0]}`, icon: "/dashboard/godwit.svg" });
  shown.onclick = () => {
    window.focus();
    location.assign("/team/notifications");
  };
}
